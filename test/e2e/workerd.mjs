// The built Worker in plain workerd, without wrangler between: for tests of what crosses the network.
//
// wrangler's test harness sends what a Worker fetches through this process (Node's fetch): redirects are followed there, an error is an
// answer of 500, a stream is read as fast as it comes, and that a client has left is never heard of behind. Here the sockets are workerd's.
// What the harness has beside (a look into objects' storage, logs, updates, the flood gate) isn't here.
import { join } from "node:path";
import { build, output } from "../../scripts/build.mjs";
import { root } from "../../scripts/run.mjs";
import { serve } from "../../scripts/workerd.mjs";
import { fromFile, http } from "./harness.mjs";

/**
 * Starts the Worker on a free port. `vars` go over wrangler.toml's; they, `fixtures` and `main` are as with the harness, `folder` is where
 * objects are stored.
 */
export async function start({ vars = {}, fixtures = false, main = "src/entry.mjs", folder } = {}) {
  const flavour = fixtures ? "fixtures" : "shipped";
  await build(flavour);
  const { durable_objects, compatibility_date, compatibility_flags } = fromFile;
  const served = await serve({
    entry: join(root, main),
    // package.json leads #built to the shipped build.
    alias: { "#built": join(output(flavour), "index.js") },
    wasm: join(output(flavour), "index_bg.wasm"),
    vars: { ...fromFile.vars, ...vars },
    objects: Object.fromEntries(durable_objects.bindings.map(({ name, class_name }) => [name, class_name])),
    date: compatibility_date,
    flags: compatibility_flags ?? [],
    folder,
  });
  return { ...served, ...http(served.url) };
}

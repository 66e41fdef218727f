// The built Worker in plain workerd, without wrangler between: for tests of what crosses the network.
//
// wrangler's test harness sends what a Worker fetches through this process (Node's fetch): redirects are followed there, an error is an
// answer of 500, a stream is read as fast as it comes, and that a client has left is never heard of behind. Here the sockets are workerd's.
// What the harness has beside (a look into objects' storage, logs, updates, the flood gate) isn't here.
import { build as bundle } from "esbuild";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import workerd from "workerd";
import { build, output } from "../../scripts/build.mjs";
import { root } from "../../scripts/run.mjs";
import { fromFile, http } from "./harness.mjs";

/** Starts the Worker on a free port. `vars` go over wrangler.toml's; they, `fixtures` and `main` are as with the harness. */
export async function start({ vars = {}, fixtures = false, main = "src/entry.mjs" } = {}) {
  const flavour = fixtures ? "fixtures" : "shipped";
  await build(flavour);
  const folder = mkdtempSync(join(tmpdir(), "sluice-workerd-"));
  const built = output(flavour);
  await bundle({
    entryPoints: [join(root, main)],
    outfile: join(folder, "index.js"),
    ...{ bundle: true, format: "esm", platform: "neutral", logLevel: "error", external: ["cloudflare:*"] },
    alias: { "#built": join(built, "index.js") },
    plugins: [{ name: "wasm", setup: ({ onResolve }) => onResolve({ filter: /\.wasm$/ }, () => ({ path: "./index_bg.wasm", external: true })) }],
  });
  copyFileSync(join(built, "index_bg.wasm"), join(folder, "index_bg.wasm"));
  writeFileSync(join(folder, "cache.js"), NO_CACHE);
  const objects = join(folder, "objects");
  mkdirSync(objects);
  writeFileSync(join(folder, "config.capnp"), config(objects, { ...fromFile.vars, ...vars }));

  // The port that the system gave is told on this file descriptor.
  const child = spawn(workerd.default ?? workerd, ["serve", "--experimental", "--control-fd=3", join(folder, "config.capnp")], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text) => (said = `${said}${text}`.slice(-8_000)));
  }
  const ended = once(child, "exit");
  const close = async () => {
    child.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  const port = await Promise.race([listening(child.stdio[3]), ended.then(() => undefined)]);
  if (port === undefined) {
    await close();
    throw new Error(`workerd didn't start:\n${said}`);
  }
  const url = new URL(`http://127.0.0.1:${port}`);
  return { url, ...http(url), pid: child.pid, said: () => said, close, [Symbol.asyncDispose]: close };
}

async function listening(stream) {
  for await (const line of createInterface({ input: stream })) {
    const { event, socket, port } = JSON.parse(line);
    if (event === "listen" && socket === "http") return port;
  }
  return undefined;
}

// A cache that never has anything: without one, workerd's Cache API throws.
const NO_CACHE = `export default { fetch: () => new Response(null, { status: 504, headers: { "cf-cache-status": "MISS" } }) };`;

const quoted = (text) => JSON.stringify(String(text));

function config(folder, vars) {
  const { durable_objects, compatibility_date, compatibility_flags } = fromFile;
  const bindings = [];
  for (const [name, value] of Object.entries(vars)) {
    if (value === null || value === undefined) continue;
    const kind = typeof value === "string" ? `text = ${quoted(value)}` : `json = ${quoted(JSON.stringify(value))}`;
    bindings.push(`(name = ${quoted(name)}, ${kind})`);
  }
  const objects = durable_objects.bindings;
  for (const { name, class_name } of objects) bindings.push(`(name = ${quoted(name)}, durableObjectNamespace = ${quoted(class_name)})`);
  const namespaces = objects.map(({ class_name: name }) => `(className = ${quoted(name)}, uniqueKey = ${quoted(`sluice-${name}`)}, enableSql = true)`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "sluice", worker = .sluice),
    (name = "cache", worker = .cache),
    (name = "objects", disk = (path = ${quoted(folder)}, writable = true)),
    (name = "network", network = (allow = ["public", "private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "sluice")],
);
const sluice :Workerd.Worker = (
  modules = [(name = "index.js", esModule = embed "index.js"), (name = "index_bg.wasm", wasm = embed "index_bg.wasm")],
  compatibilityDate = ${quoted(compatibility_date)},
  compatibilityFlags = [${(compatibility_flags ?? []).map(quoted).join(", ")}],
  bindings = [${bindings.join(", ")}],
  durableObjectNamespaces = [${namespaces.join(", ")}],
  durableObjectStorage = (localDisk = "objects"),
  globalOutbound = "network",
  cacheApiOutbound = "cache",
);
const cache :Workerd.Worker = (modules = [(name = "cache.js", esModule = embed "cache.js")], compatibilityDate = "2026-01-01");
`;
}

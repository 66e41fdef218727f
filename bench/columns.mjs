// What is measured side by side: each a Worker in a workerd of its own, with objects stored in memory where that can be had.
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, output } from "../scripts/build.mjs";
import { root } from "../scripts/run.mjs";
import { serve } from "../scripts/workerd.mjs";
import { fromFile } from "../test/e2e/harness.mjs";

const MEMORY = "/dev/shm";
export const folder = existsSync(MEMORY) ? MEMORY : tmpdir();

const file = (name) => join(root, "bench", "columns", `${name}.mjs`);
const { compatibility_date: date } = fromFile;

// Nothing that is taken comes back while it is measured: a bucket that is full again is deleted, which would be measured too.
const SLOW = 0.001;
const MUCH = 1_000_000;

/** Buckets that admit every call. */
const ADMITS = { ours: { MCP_RATE_LIMIT: SLOW, MCP_RATE_LIMIT_BURST: MUCH }, others: { RATE: SLOW, BURST: MUCH } };

/** Buckets of one token: all calls but the first are refused. */
const REFUSES = {
  // A tool's bucket is never remembered, so that the object is asked each time.
  ours: { ...ADMITS.ours, MCP_TOOLS: { echo: { rate: SLOW, burst: 1 } } },
  others: { RATE: SLOW, BURST: 1 },
};

async function ours(vars, entry = join(root, "src", "entry.mjs")) {
  await build("shipped");
  return serve({
    entry,
    alias: { "#built": join(output("shipped"), "index.js") },
    wasm: join(output("shipped"), "index_bg.wasm"),
    vars: { ...fromFile.vars, ...vars },
    objects: Object.fromEntries(fromFile.durable_objects.bindings.map(({ name, class_name }) => [name, class_name])),
    ...{ date, folder },
  });
}

const other = (name, vars, storage = "storage") =>
  serve({
    entry: file(name),
    alias: { "#storage": file(storage) },
    vars,
    objects: vars ? { BUCKET: "Bucket" } : {},
    ...{ date, folder, flags: ["nodejs_compat"] },
  });

/** How each column is started, by what its buckets do. */
export const columns = {
  ours: { admits: () => ours(ADMITS.ours), refuses: () => ours(REFUSES.ours), remembers: () => ours({ MCP_RATE_LIMIT: SLOW, MCP_RATE_LIMIT_BURST: 1 }) },
  peer: { admits: () => other("peer", ADMITS.others), refuses: () => other("peer", REFUSES.others) },
  floor: { admits: () => other("floor", ADMITS.others), refuses: () => other("floor", REFUSES.others) },
  hello: { admits: () => other("hello") },
  parse: { admits: () => other("parse") },
};

/** Sluice in front of a server. */
export const gateway = (upstream) => ours({ ...ADMITS.ours, MCP_UPSTREAM: upstream });

/** The columns that have objects, with what their objects ask of their storage counted. */
export const counted = {
  ours: () => ours(ADMITS.ours, file("ours-counted")),
  peer: () => other("peer-counted", ADMITS.others, "counted"),
  floor: () => other("floor-counted", ADMITS.others, "counted"),
};

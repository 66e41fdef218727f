// What is measured side by side: each a Worker in a workerd of its own, with objects stored in memory where that can be had.
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../scripts/run.mjs";
import { serve } from "../scripts/workerd.mjs";
import { fromFile } from "../test/e2e/harness.mjs";
import { start } from "../test/e2e/workerd.mjs";

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

/** One bucket of one token, whose debt an isolate remembers. */
const REMEMBERS = { MCP_RATE_LIMIT: SLOW, MCP_RATE_LIMIT_BURST: 1 };

const ours = (vars, main) => start({ vars, main, folder });

const other = (name, vars, { counted = false } = {}) =>
  serve({
    entry: file(counted ? "counted-bucket" : name),
    alias: { "#column": file(name), "#storage": file(counted ? "counted" : "storage") },
    vars,
    objects: vars ? { BUCKET: "Bucket" } : {},
    ...{ date, folder, flags: ["nodejs_compat"] },
  });

/** How each column is started, by what its buckets do. */
export const columns = {
  ours: { admits: () => ours(ADMITS.ours), refuses: () => ours(REFUSES.ours), remembers: () => ours(REMEMBERS) },
  peer: { admits: () => other("peer", ADMITS.others), refuses: () => other("peer", REFUSES.others) },
  floor: { admits: () => other("floor", ADMITS.others), refuses: () => other("floor", REFUSES.others) },
  hello: { admits: () => other("hello") },
  parse: { admits: () => other("parse") },
};

/** Sluice in front of a server. */
export const gateway = (upstream) => ours({ ...ADMITS.ours, MCP_UPSTREAM: upstream });

/** The columns that have objects, with what their objects ask of their storage counted, by what becomes of a call. */
export const counted = Object.fromEntries(
  Object.entries({
    admitted: [ADMITS.ours, ADMITS.others],
    "refused by the object": [REFUSES.ours, REFUSES.others],
    "refused and remembered": [REMEMBERS, REFUSES.others],
  }).map(([call, [own, others]]) => [
    call,
    {
      ours: () => ours(own, "bench/columns/ours-counted.mjs"),
      peer: () => other("peer", others, { counted: true }),
      floor: () => other("floor", others, { counted: true }),
    },
  ]),
);

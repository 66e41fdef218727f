// Every test, stage by stage; the first that fails ends it.
//
//   npm test [-- STAGE ...]            stages: native, e2e, conformance
//   npm test -- e2e FILE-or-WORD ...   only the e2e files whose path has one of these words
//   npm test -- native ARGUMENT ...    arguments for cargo test
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { build } from "./build.mjs";
import { fail, must, root } from "./run.mjs";

// Each file starts workerd several times: more at once than this only makes the clocks in the tests less true.
const FILES_AT_ONCE = 2;

const stages = {
  native: (rest) => must("cargo", ["test", "--locked", ...rest]),
  async e2e(words) {
    const folder = join(root, "test", "e2e");
    const files = readdirSync(folder)
      .filter((name) => name.endsWith(".test.mjs"))
      .map((name) => join("test", "e2e", name))
      .filter((file) => words.length === 0 || words.some((word) => file.includes(word)));
    if (files.length === 0) fail(`No e2e test file matches ${words.join(", ")}.`);
    await build("shipped", "fixtures");
    // A test that hangs must not hang the run.
    const bounds = [`--test-concurrency=${FILES_AT_ONCE}`, "--test-timeout=900000"];
    await must("node", ["--test", "--test-reporter=spec", ...bounds, ...files]);
  },
  async conformance() {
    await build("fixtures", "shipped");
    await must("node", ["scripts/conformance.mjs"]);
    await must("node", ["scripts/conformance-gateway.mjs"]);
  },
};

const words = process.argv.slice(2);
const firstOther = words.findIndex((word) => !(word in stages));
const rest = firstOther < 0 ? [] : words.slice(firstOther);
const named = firstOther < 0 ? words : words.slice(0, firstOther);
if (rest.length > 0 && named.length !== 1) fail(`Say one stage of ${Object.keys(stages).join(", ")} before ${rest.join(" ")}.`);

for (const name of named.length > 0 ? named : Object.keys(stages)) {
  const started = Date.now();
  console.log(`\n== ${name}`);
  await stages[name](rest);
  console.log(`== ${name} passed in ${((Date.now() - started) / 1000).toFixed(1)} s`);
}

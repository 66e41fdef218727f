// Mutation tests of the pure rooms: every mutant that the native tests don't catch must stand in test/mutants.txt with a reason.
//
//   npm run mutants [-- ARGUMENT ...]    arguments for cargo mutants, such as --file src/limiter/bucket.rs; then stale lines aren't told
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fail, must, root, run, tool, tools } from "./run.mjs";

const VERSION = "27.1.0";
// The rooms that know nothing of Workers, so that native tests reach all of them.
const ROOMS = [
  ...[
    ...["alarm", "allowance", "answer", "bucket", "decision", "demand", "give_back", "memory"],
    ...["object", "operator", "policy", "question", "quota", "returns", "row", "session", "shards", "slots", "spacing", "standing", "window"],
  ].map((room) => `src/limiter/${room}.rs`),
  ...["src/mcp/**", "src/refusal.rs", "src/refusal/**", "src/config/**", "src/tools/arguments.rs"],
  ...["backoff", "catalogue", "catalogues", "cors", "credential", "headers", "health", "kept", "pages", "passing", "retry_after"].map(
    (room) => `src/upstream/${room}.rs`,
  ),
  ...["src/door/gateway/judge.rs", "src/door/gateway/outcome.rs", "src/door/head.rs", "src/door/media.rs"],
  ...["address", "authorization", "claims", "fault", "jwk", "jws", "key_cache", "mod", "name"].map((room) => `src/caller/${room}.rs`),
];
// Documents change no verdict of these, and a mutant is caught by the first case or never. Nothing else is built.
const TESTS = ["--lib", "--test=properties", "--test=allowances"].map((target) => `--cargo-arg=${target}`);
const LIST = join("test", "mutants.txt");

async function install() {
  const record = join(tools, ".crates.toml");
  const installed = existsSync(record) ? readFileSync(record, "utf8") : "";
  if (installed.includes(`"cargo-mutants ${VERSION} (`) && existsSync(tool("cargo-mutants"))) return;
  console.log(`== Setting up: cargo-mutants ${VERSION} (some minutes, once)`);
  await must("cargo", ["install", "--locked", "--force", "--root", tools, `cargo-mutants@${VERSION}`]);
}

// Lines move with every edit, so mutants are known by file and change: `src/a.rs: replace < with <= in f`.
const withoutPlace = (line) => line.replace(/^(.*?\.rs):\d+:\d+: /, "$1: ");

function explained() {
  if (!existsSync(join(root, LIST))) return new Map();
  const lines = readFileSync(join(root, LIST), "utf8").split("\n");
  const entries = lines.filter((line) => line.trim() !== "" && !line.startsWith("#"));
  return new Map(
    entries.map((line) => {
      const [, name, reason] = line.match(/^(.*?) # (.*)$/) ?? [];
      if (!reason) fail(`${LIST}: no reason (" # ...") in: ${line}`);
      return [name, reason];
    }),
  );
}

function outcomes(name) {
  const file = join(root, "mutants.out", `${name}.txt`);
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
}

await install();
const extra = process.argv.slice(2);
const rooms = extra.some((arg) => /^(-f|--file)/.test(arg)) ? [] : ROOMS.flatMap((room) => ["--file", room]);
// Exit code 2 says that mutants were missed, 3 that some ran too long: the lists tell which.
const code = await run("cargo", ["mutants", "--no-shuffle", "--output", root, ...TESTS, ...rooms, ...extra], {
  env: {
    PATH: `${join(tools, "bin")}:${process.env.PATH}`,
    PROPTEST_CASES: "64",
    // Nobody debugs a mutant, and it is linked faster.
    ...{ CARGO_PROFILE_DEV_DEBUG: "0", CARGO_PROFILE_TEST_DEBUG: "0" },
  },
});
if (![0, 2, 3].includes(code)) fail(`cargo mutants failed (${code}).`);

const known = explained();
const missed = [...new Set(outcomes("missed").map(withoutPlace))];
const unexplained = missed.filter((name) => !known.has(name));
const stale = extra.length > 0 ? [] : [...known.keys()].filter((name) => !missed.includes(name));
const count = (name) => outcomes(name).length;
console.log(`\ncaught ${count("caught")}, missed ${count("missed")} (${missed.length - unexplained.length} explained by name), `
  + `ran too long ${count("timeout")}, didn't compile ${count("unviable")}`);
for (const name of unexplained) console.log(`unexplained: ${name}`);
for (const name of stale) console.log(`stale in ${LIST}: ${name}`);
if (unexplained.length + stale.length > 0) process.exit(1);

// Builds the Worker, unless nothing that goes into it has changed. wrangler.toml's build command.
//
//   node scripts/build.mjs [shipped] [fixtures]
//
// Both flavours share the target folder; cargo keeps their objects apart. With `fixtures` come the conformance suite's tools.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { withLock } from "./lock.mjs";
import { fail, must, root, tool } from "./run.mjs";

const FLAVOURS = {
  shipped: { out: "build", cargo: [] },
  fixtures: { out: "build-fixtures", cargo: ["--features", "fixtures"] },
};

// What a build reads for certain. What else it read, cargo tells in its dep-info.
const INPUTS = [
  ...["Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain.toml", ".cargo", "src", "docs", "decisions", "system.yaml"],
  ...["scripts/build.mjs", "scripts/setup.mjs", "package-lock.json"],
];

// What the compiler uses, and what wasm-bindgen does.
const FEATURES = [
  ...["mutable-globals", "sign-ext", "nontrapping-float-to-int", "bulk-memory", "multivalue", "reference-types"],
  "exception-handling",
];

export const output = (flavour) => join(root, FLAVOURS[flavour].out);
const stampOf = (flavour) => join(output(flavour), ".inputs.json");

function* files(path) {
  if (!existsSync(path)) return;
  if (!statSync(path).isDirectory()) yield path;
  else for (const name of readdirSync(path).sort()) yield* files(join(path, name));
}

// The hash of names and contents. What is JavaScript is bundled later, so it isn't an input here.
function hash(extra) {
  const sum = createHash("sha256");
  const seen = new Set();
  for (const input of [...INPUTS, ...extra]) {
    for (const file of files(join(root, input))) {
      if (seen.has(file) || file.endsWith(".mjs") && file.startsWith(join(root, "src"))) continue;
      seen.add(file);
      sum.update(`${relative(root, file)}\0`).update(createHash("sha256").update(readFileSync(file)).digest());
    }
  }
  return sum.digest("hex");
}

function isFresh(flavour) {
  try {
    const { hash: before, extra } = JSON.parse(readFileSync(stampOf(flavour), "utf8"));
    return existsSync(join(output(flavour), "index.js")) && before === hash(extra);
  } catch {
    return false;
  }
}

// Files outside INPUTS that the compiler or build.rs named: `include_str!` and the like.
function read() {
  const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
  const info = join(target, "wasm32-unknown-unknown", "release", "sluice.d");
  const [, list] = readFileSync(info, "utf8").split("\n", 1)[0].split(/: (.*)/);
  return list
    .replaceAll("\\ ", "\0")
    .split(" ")
    .map((file) => relative(root, file.replaceAll("\0", " ")))
    .filter((file) => file !== "" && !file.startsWith(".."));
}

async function compile(flavour) {
  if (!existsSync(tool("worker-build"))) fail("Not set up yet: run `node scripts/setup.mjs`.");
  const { out, cargo } = FLAVOURS[flavour];
  const bin = (name) => join(root, "node_modules", ".bin", name);
  const before = hash([]);
  rmSync(stampOf(flavour), { force: true });
  // Named tools: otherwise worker-build would download its own.
  await must(tool("worker-build"), ["--release", "--out-dir", out, ".", ...cargo], {
    env: { WASM_BINDGEN_BIN: tool("wasm-bindgen"), ESBUILD_BIN: bin("esbuild") },
  });
  await optimize(bin("wasm-opt"), join(root, out));
  // A file saved while the compiler ran may or may not be in it: leave no stamp, so that the next call builds again.
  if (hash([]) !== before) return;
  const extra = read();
  writeFileSync(stampOf(flavour), JSON.stringify({ hash: hash(extra), extra }));
}

// For speed: worker-build would do it for size. The names of functions are a twelfth of an upload, and nothing needs them while it runs:
// they are left in a file beside it, by which the numbers in the stack of a panic are found.
async function optimize(wasmOpt, out) {
  const [file, named] = ["index_bg.wasm", "named.wasm"].map((name) => join(out, name));
  const features = FEATURES.map((feature) => `--enable-${feature}`);
  await must(wasmOpt, ["-O3", "--debuginfo", ...features, file, "-o", named]);
  await must(wasmOpt, ["--strip-debug", ...features, named, "-o", file]);
}

export async function build(...flavours) {
  for (const flavour of flavours) {
    if (!(flavour in FLAVOURS)) fail(`No such flavour: ${flavour}. There are ${Object.keys(FLAVOURS).join(", ")}.`);
    if (isFresh(flavour)) continue;
    await withLock(join(root, "target", "build.lock"), async () => {
      if (!isFresh(flavour)) await compile(flavour);
    });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const flavours = process.argv.slice(2);
  await build(...(flavours.length > 0 ? flavours : ["shipped"]));
}

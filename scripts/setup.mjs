// Sets up what is missing, then runs the command it was given. Does nothing when nothing is missing.
//
//   node scripts/setup.mjs [command [argument ...]]
//
// Runs on Node 20 with no node_modules, so it uses only built-ins. Each step leaves its mark when it has ended (a stamp, cargo's
// own record), so a run that was cut off is taken up by the next one.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { withLock } from "./lock.mjs";
import { capture, fail, must, root, run, tool, tools } from "./run.mjs";

const NODE = 20;
const TARGET = "wasm32-unknown-unknown";
// wasm-bindgen's must equal the library's in Cargo.toml.
const CRATES = { "worker-build": "0.8.7", "wasm-bindgen-cli": "0.2.129" };
const BINARY = { "worker-build": "worker-build", "wasm-bindgen-cli": "wasm-bindgen" };

const stamp = join(root, "node_modules", ".sluice-lock-hash");

function lockHash() {
  return createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
}

function packagesMissing() {
  return !existsSync(stamp) || readFileSync(stamp, "utf8") !== lockHash();
}

async function targetMissing() {
  const { code, out } = await capture("rustc", ["--print", "target-libdir", "--target", TARGET]);
  if (code !== 0) {
    fail(`rustc doesn't run. Install Rust with rustup (https://rustup.rs).\n${out}`);
  }
  return !existsSync(out.trim());
}

function cratesMissing() {
  const record = join(tools, ".crates.toml");
  const installed = existsSync(record) ? readFileSync(record, "utf8") : "";
  return Object.entries(CRATES)
    .filter(([name, version]) => !installed.includes(`"${name} ${version} (`) || !existsSync(tool(BINARY[name])))
    .map(([name]) => name);
}

async function missing() {
  return { packages: packagesMissing(), target: await targetMissing(), crates: cratesMissing() };
}

const isNothing = ({ packages, target, crates }) => !packages && !target && crates.length === 0;

async function has(command, why) {
  const { code } = await capture(command, ["--version"]);
  if (code !== 0) fail(`${command} isn't installed; ${why}`);
}

async function setUp() {
  const started = Date.now();
  const { packages, target, crates } = await missing(); // Another run may have done it while this one waited.
  if (packages) {
    await has("npm", "it comes with Node (https://nodejs.org).");
    step("npm packages");
    // The machine's Node may be older than some packages ask for: they run on the one that is among them.
    const ci = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
    // The npm of a run that was killed may live on for a while, in the same folder: give it time, and try once more.
    if ((await run("npm", ci).catch(() => 1)) !== 0) {
      step("npm packages, once more in 20 s");
      await sleep(20_000);
      await must("npm", ci);
    }
    if ((await capture(join(root, "node_modules", ".bin", "node"), ["--version"])).code !== 0) {
      fail("npm installed no Node: are install scripts switched off (npm config get ignore-scripts)?");
    }
    writeFileSync(stamp, lockHash());
  }
  if (target) {
    await has("rustup", `it is needed for the target ${TARGET} (https://rustup.rs).`);
    step(`Rust target ${TARGET}`);
    await must("rustup", ["target", "add", TARGET]);
  }
  if (crates.length > 0) {
    await has("cargo", "install Rust with rustup (https://rustup.rs).");
    // One by one, so that a run that is cut off keeps the first. The shared target folder keeps what was compiled.
    const scratch = join(tools, "target");
    for (const name of crates) {
      step(`${name} ${CRATES[name]} (some minutes, once)`);
      await must("cargo", [
        ...["install", "--locked", "--force", "--root", tools, "--target-dir", scratch],
        ...["--bin", BINARY[name], `${name}@${CRATES[name]}`],
      ]);
    }
    rmSync(scratch, { recursive: true, force: true });
  }
  if (packages || target || crates.length > 0) step(`done in ${Math.round((Date.now() - started) / 1000)} s`);
}

function step(text) {
  console.error(`\n== Setting up: ${text}`);
}

if (Number.parseInt(process.versions.node, 10) < NODE) {
  fail(`Node ${NODE} or newer is needed; this is ${process.version}.`);
}
if (!isNothing(await missing())) await withLock(join(tools, "setup.lock"), setUp);

const [command, ...args] = process.argv.slice(2);
if (command) {
  process.exitCode = await run(command, args).catch((error) => fail(`${command}: ${error.message}`));
}

// Formatting and lints: on this machine with all targets, and for wasm in both flavours.
import { must } from "./run.mjs";

const WASM = ["--target", "wasm32-unknown-unknown"];
const clippy = (...args) => ["clippy", "--locked", "--quiet", ...args, "--", "-D", "warnings"];

for (const args of [
  ["fmt", "--check"],
  clippy("--all-targets"),
  clippy("--all-targets", "--features", "fixtures"),
  clippy("--lib", ...WASM),
  clippy("--lib", ...WASM, "--features", "fixtures"),
]) {
  console.log(`== cargo ${args.join(" ")}`);
  await must("cargo", args);
}

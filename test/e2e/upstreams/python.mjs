// A server on the official Python package, in an environment of its own under .tools. Where there is no Python, or no way to its packages,
// `missing` says so, and the tests that need it are left out with that message.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withLock } from "../../../scripts/lock.mjs";
import { capture, tools } from "../../../scripts/run.mjs";
import { answering, freePort, stop } from "./process.mjs";

const here = import.meta.dirname;
const requirements = join(here, "requirements.txt");
const environment = join(tools, "python-mcp");
const python = join(environment, "bin", "python");
// What was installed, so that a changed pin, and an installation that was cut off, are made anew.
const stamp = join(environment, ".requirements");

const wanted = () => createHash("sha256").update(readFileSync(requirements)).digest("hex");
const isThere = () => existsSync(python) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted();

const lastLine = (text) => text.trim().split("\n").at(-1);

async function install() {
  if (isThere()) return undefined;
  const found = await capture("python3", ["-c", "import sys; print(sys.version_info >= (3, 10))"]);
  if (found.code !== 0) return "there is no python3";
  if (found.out.trim() !== "True") return "python3 is older than 3.10";
  rmSync(environment, { recursive: true, force: true });
  const made = await capture("python3", ["-m", "venv", environment], { both: true });
  if (made.code !== 0) return `python3 makes no virtual environment: ${lastLine(made.out)}`;
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "15"];
  const installed = await capture(python, [...pip, "-r", requirements], { both: true });
  if (installed.code !== 0) return `the package mcp can't be installed: ${lastLine(installed.out)}`;
  writeFileSync(stamp, wanted());
  return undefined;
}

/** Sets up what is needed. Resolves to undefined, or to what is missing, in words. */
export async function missing() {
  if (isThere()) return undefined;
  mkdirSync(tools, { recursive: true });
  let reason;
  await withLock(join(tools, "python-mcp.lock"), async () => (reason = await install()));
  return reason;
}

/** Starts it on a free port, and resolves to { url, pid, close }. */
export async function start() {
  const reason = await missing();
  if (reason) throw new Error(reason);
  const port = await freePort();
  const child = spawn(python, [join(here, "server.py"), String(port)], { stdio: ["ignore", "ignore", "pipe"] });
  const url = new URL(`http://127.0.0.1:${port}/mcp`);
  await answering(child, url);
  const close = () => stop(child);
  return { url, pid: child.pid, close, [Symbol.asyncDispose]: close };
}

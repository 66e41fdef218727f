// The official example server of everything there is in MCP before 2026-07-28: sessions, streams, sampling, elicitation. A process of its own.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { root } from "../../../scripts/run.mjs";
import { answering, freePort, stop } from "./process.mjs";

const MAIN = join(root, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js");

/** Starts it on a free port, and resolves to { url, pid, close }. */
export async function start() {
  const port = await freePort();
  const child = spawn(process.execPath, [MAIN, "streamableHttp"], {
    env: { ...process.env, PORT: String(port) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const url = new URL(`http://127.0.0.1:${port}/mcp`);
  // Without a session it answers a GET with 400: that it answers is enough.
  await answering(child, url);
  const close = () => stop(child);
  return { url, pid: child.pid, close, [Symbol.asyncDispose]: close };
}

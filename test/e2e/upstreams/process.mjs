// What the servers that are processes of their own have in common: a port, waiting until they answer, and their end.
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

// A cold start on a machine that is busy with builds takes long.
const WAIT_MS = 60_000;

/** A port that was free a moment ago. For programs that can't be told to take any. */
export async function freePort() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** Waits until the child answers at this URL, whatever it says. When it ends before, its stderr is the error. */
export async function answering(child, url) {
  let said = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text) => (said = `${said}${text}`.slice(-4_000)));
  let failed;
  child.on("error", (error) => (failed = error));
  for (const end = Date.now() + WAIT_MS; ; await sleep(50)) {
    if (failed) throw failed;
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server behind ended at its start:\n${said}`);
    try {
      const response = await fetch(url, { headers: { accept: "text/event-stream" }, signal: AbortSignal.timeout(5_000) });
      await response.body?.cancel();
      return;
    } catch {
      // Not yet.
    }
    if (Date.now() > end) {
      await stop(child);
      throw new Error(`the server behind gave no answer within ${WAIT_MS} ms:\n${said}`);
    }
  }
}

/** Ends the child, by its own id, and waits until it has ended. */
export async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await ended;
  clearTimeout(timer);
}

// docs/gateway.md, as printed: from a running server to a metered one.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { build } from "../../scripts/build.mjs";
import { root } from "../../scripts/run.mjs";
import { until } from "./calls.mjs";
import * as everything from "./upstreams/everything.mjs";

const page = readFileSync(join(root, "docs", "gateway.md"), "utf8");
const blocks = [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({ language, text: text.trimEnd() }));
const [server, dev, burst, printed] = blocks;

/** A port that nobody listens on. */
async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

/** `wrangler dev` with the arguments that are printed after `npm run dev --`, and the server's address put in. */
async function wranglerDev(upstream) {
  const port = await freePort();
  const given = dev.text.replace("http://localhost:3001/mcp", upstream).replace(/^npm run dev -- /, "").split(" ");
  const args = ["dev", "--port", String(port), "--show-interactive-dev-session=false", ...given];
  const child = spawn("wrangler", args, { cwd: root, stdio: ["ignore", "pipe", "pipe"], detached: true, env: { ...process.env, WRANGLER_SEND_METRICS: "false" } });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said += data));
  const ended = once(child, "exit");
  const url = `http://localhost:${port}`;
  const answers = async () => {
    if (child.exitCode !== null) throw new Error(`wrangler dev ended:\n${said}`);
    return (await fetch(`${url}/healthz`).catch(() => undefined))?.ok;
  };
  await until(answers, "wrangler dev answers", 120_000);
  return {
    url,
    async [Symbol.asyncDispose]() {
      process.kill(-child.pid, "SIGTERM");
      await ended;
    },
  };
}

async function shell(text) {
  const child = spawn("bash", ["-euo", "pipefail"], { stdio: ["pipe", "pipe", "inherit"] });
  let out = "";
  child.stdout.on("data", (data) => (out += data));
  child.stdin.end(text);
  const [code] = await once(child, "close");
  return { code, lines: out.trimEnd().split("\n").map((line) => line.trimStart()) };
}

test("the example server is metered, as printed", async () => {
  assert.deepEqual([server, dev, burst, printed].map(({ language }) => language), ["sh", "sh", "sh", "text"]);
  assert.match(server.text, /^PORT=3001 npx -y @modelcontextprotocol\/server-everything streamableHttp$/);
  await build("shipped");
  await using upstream = await everything.start();
  await using sluice = await wranglerDev(upstream.url.href);
  const started = Date.now();
  const { code, lines } = await shell(burst.text.replaceAll("http://localhost:8787", sluice.url));
  const expected = printed.text.split("\n");
  if (lines[0] === "31 Echo: hello") {
    // 31 calls took so long that a token came back: then nothing is refused.
    assert.ok(Date.now() - started > 2_000);
    return;
  }
  assert.equal(code, 0);
  const anyWait = (line) => line.replace(/Wait (1 second|2 seconds) before/, "Wait 2 seconds before");
  assert.deepEqual(lines.map(anyWait), expected);
});

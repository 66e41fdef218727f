// What README.md and docs/ print is what happens: commands run as printed, configurations are taken, requests get the answers.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { root } from "../../scripts/run.mjs";
import { start } from "./harness.mjs";

const { unstable_readConfig: readConfig } = await import("wrangler");

const DEV = "http://localhost:8787";
const readme = readFileSync(join(root, "README.md"), "utf8");

/** The fenced blocks of a page, in order, as { language, words, text }: "```json request spent" has two words. */
function fenced(page) {
  const found = page.matchAll(/^```(\w+)([^\n]*)\n(.*?)^```$/gms);
  return [...found].map(([, language, words, text]) => ({ language, words: words.split(" ").filter(Boolean), text }));
}

const blocks = fenced(readme);
const inLanguage = (language) => blocks.filter((block) => block.language === language).map(({ text }) => text);
const pages = readdirSync(join(root, "docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => ({ name: `docs/${name}`, blocks: fenced(readFileSync(join(root, "docs", name), "utf8")) }));

const folder = mkdtempSync(join(tmpdir(), "readme-"));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a block in a shell. Nothing of it is changed but where the server is. */
function shell(text, url) {
  return new Promise((resolve, reject) => {
    const child = spawn("bash", ["-euo", "pipefail"], { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
    let out = "";
    child.stdout.on("data", (data) => (out += data));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, lines: out.trimEnd().split("\n").map((line) => line.trimStart()) }));
    child.stdin.end(text.replaceAll(DEV, url.origin));
  });
}

test("the burst is refused and recovers, as printed", async () => {
  const at = blocks.findIndex(({ language, text }) => language === "sh" && text.includes("sleep"));
  const [burst, printed] = [blocks[at], blocks[at + 1]];
  assert.equal(printed.language, "text");
  const expected = printed.text.trimEnd().split("\n");
  assert.match(expected[1], /Wait 2 seconds/);
  // Where 31 calls take long, a token comes back meanwhile: then there is a shorter wait, or nothing to see. Every other outcome is wrong.
  for (let attempt = 1; ; attempt += 1) {
    await using sluice = await start();
    await sluice.fetch("/healthz");
    const started = Date.now();
    const { code, lines } = await shell(burst.text, sluice.url);
    const seconds = (Date.now() - started) / 1_000;
    const told = Number(lines[1]?.match(/^1 Rate limit reached for echo\. Wait ([12]) seconds? before the next tool call\.$/)?.[1]);
    if (told === 2 || attempt === 4) {
      assert.equal(code, 0);
      assert.deepEqual(lines, expected);
      assert.ok(seconds >= 2, `it waited: ${seconds} s`);
      return;
    }
    if (told === 1) {
      // The burst took more than a second; all the rest must be as printed.
      assert.deepEqual(lines, [expected[0], expected[1].replace("2 seconds", "1 second"), expected[2]]);
      assert.ok(seconds > 2, `31 calls in ${seconds - 1} s, and a wait of one second`);
      return;
    }
    // No refusal, and nothing to wait for: right only if a token had time to come back.
    assert.equal(lines[0], "31 hello");
    assert.ok(seconds >= 2, `31 calls ran within ${seconds} s`);
  }
});

test("the pages answer to the commands that are printed", async () => {
  await using sluice = await start();
  const commands = inLanguage("sh").filter((text) => text.startsWith("curl "));
  assert.equal(commands.length, 2);
  const { code, lines } = await shell(commands[0], sluice.url);
  assert.equal(code, 0);
  // Two pages of JSON without a line end, and the metrics.
  assert.ok(lines[0].startsWith('{"status":"ok"}{"total":0,"tools":{}}'), lines[0]);
  assert.ok(lines.includes("mcp_limiter_questions_total 0"), lines.join("\n"));
  // Each series that is printed is one that is counted, and the other way round. (One that has counted nothing yet isn't shown.)
  const source = readFileSync(join(root, "src", "stats", "show.rs"), "utf8").split("#[cfg(test)]")[0];
  const counted = [...source.matchAll(/"(mcp_\w+)"/g)].map(([, name]) => `${name}_total`);
  const told = [...readme.matchAll(/^\| `(mcp_\w+_total)/gm)].map(([, name]) => name);
  assert.deepEqual(told.sort(), counted.sort());
});

test("the operator's commands do what is printed", async () => {
  await using sluice = await start({ vars: { MCP_ADMIN_TOKEN: "s3cret" } });
  const [, commands] = inLanguage("sh").filter((text) => text.startsWith("curl "));
  const { code, lines } = await shell(`MCP_ADMIN_TOKEN=s3cret\n${commands}`, sluice.url);
  assert.equal(code, 0);
  const [shown, blocked] = lines.join("").split(/(?<=\})(?=\{)/).map((text) => JSON.parse(text));
  assert.deepEqual([shown.owed, shown.override], [0, null]);
  assert.equal(blocked.override.blocked, true);
});

test("the ratios are those that were measured", () => {
  const results = readFileSync(join(root, "bench", "results.md"), "utf8");
  const goal = results.match(/^## The goal\n.*?\n(\|.*?\|)\n\n/ms)[1];
  const [, shown] = readme.match(/^<!-- bench:goal -->\n(.*?)\n<!-- \/bench:goal -->$/ms);
  assert.equal(shown, goal);
});

test("every npm command that is named exists", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const named = new Set([...readme.matchAll(/`?npm run (\w+)/g)].map(([, name]) => name));
  for (const name of named) assert.ok(name in scripts, name);
  const untold = Object.keys(scripts).filter((name) => name !== "test" && !named.has(name));
  assert.deepEqual(untold, [], "a command that README.md doesn't name");
});

test("what is left of the shell blocks is for clients and accounts", () => {
  const offline = /^(npm run \w+|npm test|npx wrangler secret put MCP_ADMIN_TOKEN)$/;
  const clients = /^(claude mcp add --transport http sluice http:\/\/localhost:8787\/mcp|npx @modelcontextprotocol\/inspector)$/;
  for (const text of inLanguage("sh")) {
    if (text.startsWith("curl ") || text.includes("sleep")) continue;
    for (const line of text.trimEnd().split("\n")) assert.ok(offline.test(line) || clients.test(line), `untested: ${line}`);
  }
});

test("the clients' configurations are JSON and lead to the server", () => {
  const found = inLanguage("json");
  assert.equal(found.length, 3);
  for (const text of found) {
    const { sluice } = JSON.parse(text).mcpServers ?? JSON.parse(text).servers;
    assert.ok([sluice.url, ...(sluice.args ?? [])].includes(`${DEV}/mcp`), text);
  }
});

/** The vars of a block for wrangler.toml. */
function vars(text, n) {
  const file = join(folder, `wrangler-${n}.toml`);
  writeFileSync(file, `name = "sluice"\ncompatibility_date = "2026-11-17"\n${text}`);
  return structuredClone(readConfig({ config: file }, { hideWarnings: true }).vars);
}

test("the variables that are printed for wrangler.toml are taken", async () => {
  const [table, text] = inLanguage("toml").map(vars);
  assert.deepEqual(JSON.parse(text.MCP_TOOLS), table.MCP_TOOLS, "both forms say the same");
  for (const given of [table, text]) {
    await using sluice = await start({ vars: given });
    // echo is free there, so it is run without a verdict.
    const params = { name: "echo", arguments: { text: "hello" } };
    const { result } = await sluice.mcp({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    assert.equal(result.content[0].text, "hello");
    assert.equal(result._meta?.["sluice/allowance"], undefined);
  }
  const others = pages.flatMap((page) => page.blocks).filter(({ language }) => language === "toml");
  assert.ok(others.length >= 2);
  for (const { text } of others) {
    await using sluice = await start({ vars: vars(text, "docs") });
    const health = await sluice.fetch("/healthz");
    assert.deepEqual([health.status, await health.json()], [200, { status: "ok" }], text);
  }
});

const call = (id, name, args) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } });
const echoes = (count) => Array.from({ length: count }, (_, id) => call(id, "echo", { text: "hello" }));

/** What a page's words ask for before a request. */
const states = {
  spent: { before: (send) => send(echoes(30)) },
  http: { options: { vars: { MCP_REFUSAL: "http" } } },
  modern: { headers: { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo" } },
  "after-one-call": { before: (send) => send(echoes(1)) },
  "down-closed": { options: { vars: { MCP_FAIL: "closed" }, faults: { RateLimiter: "throws:down" } } },
  "batch-of-16-searches": {},
};

/** Waits of up to two seconds are those of the moment; all other numbers stand. */
function timeless(value) {
  const anyWait = (all, name, ms) => (Number(ms) > 0 && Number(ms) <= 2_000 ? `${name}1402` : all);
  const text = JSON.stringify(value)
    .replace(/((?:retryAfterMs|nextTokenMs)\\?":)(\d+)/g, anyWait)
    .replace(/Wait (1 second|2 seconds) before/g, "Wait 2 seconds before");
  return JSON.parse(text);
}

test("the requests that the pages show get the answers that they show", async (t) => {
  let tried = 0;
  for (const { name, blocks } of pages) {
    for (const [at, answer] of blocks.entries()) {
      if (!answer.words.includes("answer")) continue;
      const request = blocks[at - 1];
      const words = [...answer.words, ...request.words].filter((word) => !["request", "answer"].includes(word));
      await t.test(`${name} ${words.join(" ")} ${tried}`, async () => {
        const wanted = words.map((word) => states[word] ?? assert.fail(`no such state: ${word}`));
        const options = Object.assign({}, ...wanted.map((state) => state.options));
        await using sluice = await start(options);
        const send = (message, headers = {}) => sluice.mcp(message, { address: "192.0.2.1", headers });
        for (const { before } of wanted) await before?.(send);
        const shown = JSON.parse(answer.text);
        if (words.includes("batch-of-16-searches")) {
          const batch = Array.from({ length: 16 }, (_, n) => call(n + 1, "search_docs", { query: "a" }));
          const { json } = await send(batch);
          assert.deepEqual(timeless(json[0]), shown);
          return;
        }
        const { json, status, headers } = await send(request.text, Object.assign({}, ...wanted.map((state) => state.headers)));
        assert.deepEqual(timeless(json), timeless(shown));
        if (words.includes("http")) assert.deepEqual([status, /^[12]$/.test(headers.get("retry-after"))], [429, true]);
      });
      tried += 1;
    }
  }
  assert.ok(tried >= 10, `${tried} answers`);
});

test("every other piece of JSON in the pages can be read", () => {
  for (const { name, blocks } of pages) {
    for (const { language, text } of blocks) if (language === "json") assert.doesNotThrow(() => JSON.parse(text), `${name}: ${text}`);
  }
});

test("every path that the tables name exists", () => {
  const paths = [...readme.matchAll(/^\| `([\w./]+\/|[\w.]+\.yaml)` \|/gm)].map(([, path]) => path);
  assert.ok(paths.length >= 5);
  for (const path of paths) assert.ok(existsSync(join(root, path)), path);
});

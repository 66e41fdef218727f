// What the gateway adds to a call: the same call of the same server, directly and through Sluice, in alternating rounds of one run.
//
//   npm run bench [-- --quick]
//
// Both run on this machine over loopback, Sluice in plain workerd. The server behind is a process of its own.
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { cpus } from "node:os";
import { join } from "node:path";
import { fork } from "node:child_process";
import { root } from "../scripts/run.mjs";

const quick = process.argv.includes("--quick");
const ROUNDS = quick ? 3 : 15;
const CALLS = quick ? 100 : 400;
const CALLERS = 200;

// Where objects are stored: in memory where that can be had, since a disk would be measured otherwise.
const MEMORY = "/dev/shm";
if (existsSync(MEMORY)) process.env.TMPDIR = MEMORY;

const ECHO = { name: "echo", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } };

/** The server behind: the least that answers a list and a call. */
async function behind() {
  const server = createServer(async (incoming, response) => {
    let body = "";
    for await (const chunk of incoming) body += chunk;
    const { id, method, params } = JSON.parse(body);
    const result = method === "tools/list" ? { tools: [ECHO] } : { content: [{ type: "text", text: params.arguments.text }], isError: false };
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  process.send(server.address().port);
}

function call(url, agent, id) {
  const body = JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: { text: "hello" } } });
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "cf-connecting-ip": `192.0.2.${id % CALLERS}` };
  return new Promise((resolve, reject) => {
    const started = process.hrtime.bigint();
    const sent = request(url, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += chunk));
      response.on("end", () => {
        const ms = Number(process.hrtime.bigint() - started) / 1e6;
        if (!text.includes('"hello"')) reject(new Error(text));
        resolve(ms);
      });
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** The times of so many calls, `connections` at once, in milliseconds. */
async function round(url, connections, calls) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const times = [];
  let next = 0;
  const worker = async () => {
    while (next < calls) times.push(await call(url, agent, next++));
  };
  await Promise.all(Array.from({ length: connections }, worker));
  agent.destroy();
  return times.sort((a, b) => a - b);
}

const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
const median = (values) => at(values.toSorted((a, b) => a - b), 0.5);

async function main() {
  const { start } = await import("../test/e2e/workerd.mjs");
  const server = fork(import.meta.filename, ["--behind"]);
  const [port] = await once(server, "message");
  const direct = new URL(`http://127.0.0.1:${port}/mcp`);
  const sluice = await start({ vars: { MCP_UPSTREAM: direct.href, MCP_RATE_LIMIT: "1000", MCP_RATE_LIMIT_BURST: "100000" } });
  const through = new URL("/mcp", sluice.url);
  const rows = [];
  for (const connections of [1, 16]) {
    const rounds = [];
    // Every caller's object is there.
    for (const url of [direct, through]) await round(url, connections, 2 * CALLERS);
    for (let n = 0; n < ROUNDS; n += 1) {
      const one = await round(direct, connections, CALLS);
      const two = await round(through, connections, CALLS);
      rounds.push({ direct: [at(one, 0.5), at(one, 0.99)], through: [at(two, 0.5), at(two, 0.99)] });
    }
    const of = (way, index) => median(rounds.map((round) => round[way][index]));
    const added = (index) => median(rounds.map(({ direct, through }) => through[index] - direct[index]));
    rows.push({ connections, direct: [of("direct", 0), of("direct", 1)], through: [of("through", 0), of("through", 1)], added: [added(0), added(1)] });
  }
  await sluice.close();
  server.kill();
  await once(server, "exit");
  return rows;
}

if (process.argv.includes("--behind")) {
  await behind();
} else {
  const rows = await main();
  const ms = (pair) => pair.map((value) => `${value.toFixed(2)} ms`).join(" | ");
  const lines = [
    "| connections | direct p50 | direct p99 | through p50 | through p99 | added p50 | added p99 |",
    "|---|---|---|---|---|---|---|",
    ...rows.map((row) => `| ${row.connections} | ${ms(row.direct)} | ${ms(row.through)} | ${ms(row.added)} |`),
  ];
  const page = `# What the gateway adds to a call

\`npm run bench\`: medians of ${ROUNDS} alternating rounds of ${CALLS} calls, of ${CALLERS} callers, over loopback, on ${cpus().length} cores (${cpus()[0].model.trim()}), with objects
stored in ${existsSync(MEMORY) ? "memory" : "files"}. The server behind, Sluice in plain workerd and whoever measures share the cores, so what is told for 16 connections is
mostly waiting for them.

${lines.join("\n")}
`;
  console.log(lines.join("\n"));
  if (!quick) {
    mkdirSync(join(root, "bench"), { recursive: true });
    writeFileSync(join(root, "bench", "results.md"), page);
    writeFileSync(join(root, "bench", "results.json"), `${JSON.stringify({ gateway: rows }, null, 2)}\n`);
  }
}

// The official TypeScript clients, as people use them: connect, list, call, be refused, wait as told, call again.
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { start } from "./harness.mjs";

const INFO = { name: "test", version: "1" };
const WAIT = /^Rate limit reached for echo\. Wait (\d+) seconds? before the next tool call\.$/;

const CLIENTS = [
  {
    name: "the client of sdk 1.x",
    revision: "2025-11-25",
    make: () => new Client(INFO),
    transport: StreamableHTTPClientTransport,
  },
  {
    name: "the client 2.x as it comes",
    revision: "2025-11-25",
    make: () => new ModernClient(INFO),
    transport: ModernTransport,
  },
  {
    name: "the client 2.x that is told to be legacy",
    revision: "2025-11-25",
    make: () => new ModernClient(INFO, { versionNegotiation: { mode: "legacy" } }),
    transport: ModernTransport,
  },
  {
    name: "the client 2.x that finds out by itself",
    revision: "2026-07-28",
    make: () => new ModernClient(INFO, { versionNegotiation: { mode: "auto" } }),
    transport: ModernTransport,
  },
  {
    name: "the client 2.x that is pinned",
    revision: "2026-07-28",
    make: () => new ModernClient(INFO, { versionNegotiation: { mode: { pin: "2026-07-28" } } }),
    transport: ModernTransport,
  },
];

let sluice;
before(async () => (sluice = await start({ vars: { MCP_RATE_LIMIT: "1", MCP_RATE_LIMIT_BURST: "3" } })));
after(() => sluice?.close());

let callers = 0;

/** A client that is connected, from an address of its own; `sent` are its requests, and `faults` what it complained about. */
async function connected({ make, transport: Transport }, worker = sluice) {
  const sent = [];
  const faults = [];
  const client = make();
  client.onerror = (error) => faults.push(error);
  const headers = { "cf-connecting-ip": `192.0.2.${(callers += 1)}` };
  const recorded = async (url, init) => {
    const response = await fetch(url, init);
    const { method } = init.body ? JSON.parse(init.body) : {};
    sent.push({ http: init.method, method, version: new Headers(init.headers).get("mcp-protocol-version"), status: response.status });
    return response;
  };
  await client.connect(new Transport(new URL("/mcp", worker.url), { requestInit: { headers }, fetch: recorded }));
  return { client, sent, faults, [Symbol.asyncDispose]: () => client.close() };
}

const echo = (client, text = "hello") => client.callTool({ name: "echo", arguments: { text } });

/** Calls until a call is refused. */
async function useUp(client) {
  for (let ran = 0; ran < 30; ran += 1) {
    const result = await echo(client);
    if (result.isError) return { ran, result };
    assert.deepEqual(result.content, [{ type: "text", text: "hello" }]);
  }
  throw new Error("30 calls ran, and the bucket holds 3");
}

for (const kind of CLIENTS) {
  describe(kind.name, () => {
    test(`connects and speaks ${kind.revision}`, async () => {
      await using connection = await connected(kind);
      const { client, sent, faults } = connection;
      assert.equal(client.getServerVersion().name, "sluice");
      assert.deepEqual(client.getServerCapabilities(), { tools: {} });
      assert.match(client.getInstructions(), /how many seconds to wait/);
      await client.listTools();
      assert.equal(sent.at(-1).version, kind.revision);
      const handshake = kind.revision === "2026-07-28" ? "server/discover" : "initialize";
      assert.deepEqual([sent[0].method, sent[0].status], [handshake, 200]);
      assert.ok(sent.every(({ http, status }) => status < 400 || (http === "GET" && status === 405)), JSON.stringify(sent));
      assert.deepEqual(faults, []);
    });

    test("lists the tools, and has nothing to say against their schemas", async (context) => {
      const said = ["warn", "error", "log"].map((name) => context.mock.method(console, name, () => {}));
      await using connection = await connected(kind);
      const { client } = connection;
      const { tools } = await client.listTools();
      assert.ok(tools.some(({ name }) => name === "echo") && tools.some(({ name }) => name === "search_docs"));
      await client.callTool({ name: "rate_limit_status", arguments: {} });
      assert.deepEqual(said.flatMap(({ mock }) => mock.calls.map((call) => call.arguments.join(" "))), []);
    });

    test("calls tools with and without structured content", async () => {
      await using connection = await connected(kind);
      const { client, faults } = connection;
      await client.listTools();
      assert.deepEqual((await echo(client, "ä😀")).content, [{ type: "text", text: "ä😀" }]);
      const { structuredContent } = await client.callTool({ name: "list_decisions", arguments: {} });
      assert.ok(structuredContent.decisions.length > 0);
      const status = await client.callTool({ name: "rate_limit_status", arguments: {} });
      assert.equal(status.structuredContent.limit, 3);
      assert.deepEqual(faults, []);
    });

    test("gets bad arguments as a result, and an unknown tool as an error", async () => {
      await using connection = await connected(kind);
      const { client } = connection;
      await client.listTools();
      const bad = await client.callTool({ name: "search_docs", arguments: { query: "" } });
      assert.equal(bad.isError, true);
      assert.match(bad.content[0].text, /\/query/);
      await assert.rejects(client.callTool({ name: "nope", arguments: {} }), /Unknown tool: nope/);
    });

    test("is refused in words, waits as told, and calls again", async () => {
      await using connection = await connected(kind);
      const { client, faults } = connection;
      await client.listTools();
      const { ran, result } = await useUp(client);
      assert.ok(ran >= 3, `${ran} calls ran, and the bucket holds 3`);
      assert.equal(result.content.length, 1);
      const [, seconds] = result.content[0].text.match(WAIT);
      assert.equal(result._meta["sluice/refusal"].reason, "rate");

      await sleep(Number(seconds) * 1_000);
      assert.equal((await echo(client)).isError, false);
      assert.deepEqual(faults, []);
    });

    test("reads a refusal of a tool that has an output schema", async () => {
      await using connection = await connected(kind);
      const { client } = connection;
      await client.listTools();
      await useUp(client);
      const refused = await client.callTool({ name: "search_docs", arguments: { query: "limit" } });
      assert.equal(refused.isError, true);
      assert.match(refused.content[0].text, /^Rate limit reached for search_docs\. Wait \d+ seconds? before the next tool call\.$/);
    });

    test("does all but call when the bucket is empty", async () => {
      await using connection = await connected(kind);
      const { client } = connection;
      await useUp(client);
      assert.ok((await client.listTools()).tools.length > 0);
      const status = await client.callTool({ name: "rate_limit_status", arguments: {} });
      assert.ok(status.structuredContent.remaining < 3);
    });

    test("sees a refusal by HTTP as an error with the same text", async () => {
      await using worker = await start({ vars: { MCP_RATE_LIMIT: "0.1", MCP_RATE_LIMIT_BURST: "1", MCP_REFUSAL: "http" } });
      await using connection = await connected(kind, worker);
      const { client } = connection;
      await client.listTools();
      assert.equal((await echo(client)).isError, false);
      await assert.rejects(echo(client), /Rate limit reached for echo\. Wait \d+ seconds before the next tool call\./);
    });
  });
}

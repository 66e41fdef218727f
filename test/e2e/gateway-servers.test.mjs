// The gateway in front of servers that nobody here wrote, through the official TypeScript clients: the same outcome as directly, but for the
// limit.
import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "./calls.mjs";
import * as everything from "./upstreams/everything.mjs";
import { SLOW, gate } from "./upstreams/gateway.mjs";
import * as modern from "./upstreams/modern.mjs";
import * as python from "./upstreams/python.mjs";
import { start } from "./workerd.mjs";

const INFO = { name: "test", version: "1" };
const BUCKET = { MCP_RATE_LIMIT: "1", MCP_RATE_LIMIT_BURST: "3" };
const WIDE = { MCP_RATE_LIMIT: "1000", MCP_RATE_LIMIT_BURST: "10000" };

const negotiating = (mode) => () => new ModernClient(INFO, { versionNegotiation: { mode } });
const CLIENTS = {
  "sdk 1.x": { make: () => new Client(INFO), transport: StreamableHTTPClientTransport },
  "the client 2.x as it comes": { make: () => new ModernClient(INFO), transport: ModernTransport },
  "the client 2.x that finds out by itself": { make: negotiating("auto"), transport: ModernTransport },
  "the client 2.x that is pinned": { make: negotiating({ pin: "2026-07-28" }), transport: ModernTransport, pinned: true },
};

const SERVERS = {
  "server-everything": {
    start: everything.start,
    tool: "echo",
    args: { message: "hi" },
    echoed: "Echo: hi",
    fails: { name: "get-resource-reference", arguments: { resourceType: "Text", resourceId: -1 } },
    handshakeOnly: true,
  },
  "a server on @modelcontextprotocol/server 2.x": { start: modern.start, tool: "echo", args: { text: "hi" }, echoed: "hi", fails: { name: "fail", arguments: {} } },
  "a server on Python's mcp": { start: python.start, missing: python.missing, tool: "echo", args: { text: "hi" }, echoed: "hi", fails: { name: "fail", arguments: {} } },
};

let callers = 0;

/** A client that is connected, from an address of its own. */
async function connected(url, { make, transport: Transport }, options = {}) {
  const client = make();
  const faults = [];
  client.onerror = (error) => faults.push(error);
  const headers = { "cf-connecting-ip": `192.0.2.${(callers += 1)}` };
  const transport = new Transport(new URL(url), { requestInit: { headers }, ...options });
  await client.connect(transport);
  return { client, transport, faults, [Symbol.asyncDispose]: () => client.close() };
}

/** What a promise came to, in a form that can be compared. */
const outcome = (promise) => promise.then((value) => ({ value }), (error) => ({ error: error.message, code: error.code }));

for (const [name, server] of Object.entries(SERVERS)) {
  const missing = await server.missing?.();
  if (missing) console.log(`left out: ${name}: ${missing}`);

  describe(name, { skip: missing && `${missing}` }, () => {
    let upstream;
    let sluice;
    let wide;
    before(async () => {
      upstream = await server.start();
      sluice = await start({ vars: { ...BUCKET, MCP_UPSTREAM: upstream.url.href } });
      wide = await start({ vars: { ...WIDE, MCP_UPSTREAM: upstream.url.href } });
    });
    after(async () => {
      await sluice?.close();
      await wide?.close();
      await upstream?.close();
    });

    const url = (worker) => new URL("/mcp", worker.url);
    const echo = (client) => client.callTool({ name: server.tool, arguments: server.args });

    for (const [kind, how] of Object.entries(CLIENTS)) {
      if (how.pinned && server.handshakeOnly) continue;

      describe(`with ${kind}`, () => {
        test("is the same server through Sluice: handshake, tools, results and errors", async () => {
          const look = async (at) => {
            await using connection = await connected(at, how);
            const { client, faults } = connection;
            const { tools } = await client.listTools();
            const results = [await outcome(echo(client)), await outcome(client.callTool(server.fails))];
            const unknown = await outcome(client.callTool({ name: "no_such_tool", arguments: {} }));
            return {
              ...{ version: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions() },
              ...{ tools, results, unknown, faults: faults.map(({ message }) => message) },
            };
          };
          const direct = await look(upstream.url);
          assert.equal(direct.results[0].value.content[0].text, server.echoed);
          assert.deepEqual(await look(url(wide)), direct);
        });

        test("is told that arguments don't fit, as a result", async () => {
          await using connection = await connected(url(wide), how);
          const { client } = connection;
          await client.listTools();
          const bad = await client.callTool({ name: server.tool, arguments: {} });
          assert.equal(bad.isError, true);
          assert.ok(bad.content[0].text.includes(Object.keys(server.args)[0]), bad.content[0].text);
        });

        test("is refused in words, waits as told, and calls again", async () => {
          await using connection = await connected(url(sluice), how);
          const { client, faults } = connection;
          await client.listTools();
          let refused;
          for (let ran = 0; !refused && ran < 30; ran += 1) {
            const result = await echo(client);
            if (result.isError) refused = { ran, result };
            else assert.equal(result.content[0].text, server.echoed);
          }
          assert.ok(refused?.ran >= 3, "the bucket holds 3");
          const [, seconds] = refused.result.content[0].text.match(/^Rate limit reached for echo\. Wait (\d+) seconds? before the next tool call\.$/);
          assert.equal(refused.result._meta["sluice/refusal"].reason, "rate");
          assert.ok((await client.listTools()).tools.length > 0, "all but calls goes on");
          await sleep(Number(seconds) * 1_000);
          assert.equal((await echo(client)).content[0].text, server.echoed);
          assert.deepEqual(faults, []);
        });
      });
    }
  });
}

test("of 31 calls of an official client a stateless server sees 30", async () => {
  await using upstream = await modern.start();
  await using sluice = await start({ vars: { ...SLOW, MCP_UPSTREAM: upstream.url.href } });
  await using connection = await connected(new URL("/mcp", sluice.url), CLIENTS["the client 2.x that finds out by itself"]);
  const { client } = connection;
  await client.listTools();
  const results = [];
  for (let n = 0; n < 31; n += 1) results.push(await client.callTool({ name: "add", arguments: { a: n, b: 1 } }));
  assert.deepEqual(results.slice(0, 30).map(({ content }) => content[0].text), Array.from({ length: 30 }, (_, n) => `${n + 1}`));
  assert.equal(results[30].isError, true);
  assert.match(results[30].content[0].text, /^Rate limit reached for add\./);
  assert.equal(upstream.calls().length, 30);
});

test("a call of 2026-07-28 with a fault in its headers or envelope is answered as directly, whether its arguments fit or not", async () => {
  await using upstream = await modern.start();
  await using sluice = await start({ vars: { ...SLOW, MCP_UPSTREAM: upstream.url.href } });
  const VERSION = "io.modelcontextprotocol/protocolVersion";
  const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
  const HEADERS = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo" };
  const without = (name) => Object.fromEntries(Object.entries(HEADERS).filter(([key]) => key !== name));
  const META = { [VERSION]: "2026-07-28", [CAPABILITIES]: {} };
  const cases = {
    ...{ "without Mcp-Name": [without("mcp-name")], "without Mcp-Method": [without("mcp-method")] },
    "without its revision's header": [without("mcp-protocol-version")],
    "with another revision's header": [{ ...HEADERS, "mcp-protocol-version": "2025-11-25" }],
    "of a revision that nobody knows": [{ ...HEADERS, "mcp-protocol-version": "2099-01-01" }, { ...META, [VERSION]: "2099-01-01" }],
    "without the client's capabilities": [HEADERS, { [VERSION]: "2026-07-28" }],
    "without an envelope": [HEADERS, undefined],
  };
  for (const [what, [headers, ...given]] of Object.entries(cases)) {
    const _meta = given.length > 0 ? given[0] : META;
    for (const args of [{ text: "hi" }, {}]) {
      const send = async (url) => {
        const response = await fetch(url, {
          method: "POST",
          headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "echo", arguments: args, _meta } }),
        });
        const { error } = await response.json();
        return [response.status, error?.code];
      };
      const direct = await send(upstream.url);
      assert.equal(direct[0], 400, what);
      assert.deepEqual(await send(new URL("/mcp", sluice.url)), direct, `${what}, with ${JSON.stringify(args)}`);
    }
  }
});

test("a subscription of 2026-07-28 is held open, and what it tells drops the list", async () => {
  await using upstream = await modern.start();
  await using sluice = await start({ vars: { ...SLOW, MCP_UPSTREAM: upstream.url.href } });
  const changed = gate();
  const make = () =>
    new ModernClient(INFO, {
      versionNegotiation: { mode: { pin: "2026-07-28" } },
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => changed.resolve() } },
    });
  await using connection = await connected(new URL("/mcp", sluice.url), { make, transport: ModernTransport });
  const { client } = connection;
  await client.callTool({ name: "echo", arguments: { text: "hi" } });
  await until(() => upstream.seen.some(({ method }) => method === "subscriptions/listen"), "the client listens");
  const lists = () => upstream.seen.filter(({ method }) => method === "tools/list").length;
  const before = lists();
  // Until it arrives: the server may hear the subscription a little later than it is counted.
  let told = false;
  changed.promise.then(() => (told = true));
  await until(() => (upstream.notify.toolsChanged(), told), "the client is told");
  await client.callTool({ name: "echo", arguments: { text: "hi" } });
  assert.equal(lists(), before + 1);
});

describe("server-everything, directly and through Sluice, with the same outcome:", () => {
  let upstream;
  let sluice;
  before(async () => {
    upstream = await everything.start();
    sluice = await start({ vars: { ...WIDE, MCP_UPSTREAM: upstream.url.href } });
  });
  after(async () => {
    await sluice?.close();
    await upstream?.close();
  });

  /** Looks at both, one after the other, and asserts that they look the same. Resolves to what was seen. */
  async function same(look) {
    const direct = await look(upstream.url);
    assert.deepEqual(await look(new URL("/mcp", sluice.url)), direct);
    return direct;
  }

  const able = (capabilities) => ({ make: () => new Client(INFO, { capabilities }), transport: StreamableHTTPClientTransport });
  // What differs from session to session.
  const plain = (value) => JSON.parse(JSON.stringify(value).replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>"));

  test("progress, as it comes", async () => {
    const { progress, early } = await same(async (url) => {
      await using connection = await connected(url, able({}));
      const progress = [];
      let done = false;
      let early = false;
      const result = await connection.client.callTool(
        { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 4 } },
        CallToolResultSchema,
        {
          onprogress: (one) => {
            early ||= !done;
            progress.push(one);
          },
        },
      );
      done = true;
      return { progress, early, result };
    });
    assert.deepEqual(progress.map(({ progress: at }) => at), [1, 2, 3, 4]);
    assert.equal(early, true);
  });

  test("logging, on the stream that the client holds open", async () => {
    await same(async (url) => {
      await using connection = await connected(url, able({}));
      const { client } = connection;
      const logged = gate();
      client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => logged.resolve(params));
      await client.setLoggingLevel("debug");
      const on = await client.callTool({ name: "toggle-simulated-logging", arguments: {} });
      const { level, data } = await logged.promise;
      assert.match(String(data), /^[A-Z]\w+.level.message/);
      const off = await client.callTool({ name: "toggle-simulated-logging", arguments: {} });
      // Which of its lines it sends is a matter of chance.
      return plain({ on, off, logged: typeof level });
    });
  });

  test("sampling", async () => {
    const { asked } = await same(async (url) => {
      await using connection = await connected(url, able({ sampling: {} }));
      const { client } = connection;
      let asked;
      client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
        asked = params;
        return { model: "test", role: "assistant", content: { type: "text", text: "sampled" }, stopReason: "endTurn" };
      });
      const { tools } = await client.listTools();
      const result = await client.callTool({ name: "trigger-sampling-request", arguments: { prompt: "say it", maxTokens: 5 } });
      return plain({ asked, result, names: tools.map(({ name }) => name) });
    });
    assert.match(asked.messages[0].content.text, /say it/);
  });

  test("elicitation, accepted and declined", async () => {
    for (const answer of [{ action: "accept", content: { name: "Ada" } }, { action: "decline" }, { action: "cancel" }]) {
      const { asked, result } = await same(async (url) => {
        await using connection = await connected(url, able({ elicitation: {} }));
        const { client } = connection;
        let asked;
        client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
          asked = params;
          return answer;
        });
        await client.listTools();
        return plain({ result: await client.callTool({ name: "trigger-elicitation-request", arguments: {} }), asked });
      });
      assert.ok(asked.requestedSchema.properties.name);
      assert.ok(JSON.stringify(result).includes(answer.action === "accept" ? "Ada" : answer.action));
    }
  });

  test("an error that asks for an elicitation elsewhere", async () => {
    const { failed } = await same(async (url) => {
      await using connection = await connected(url, able({ elicitation: { url: {} } }));
      const { client } = connection;
      await client.listTools();
      const failed = await client
        .callTool({ name: "trigger-url-elicitation", arguments: { url: "https://example.com/", errorPath: true } })
        .catch(({ code, data, message }) => ({ code, data, message }));
      return plain({ failed });
    });
    assert.equal(failed.code, -32042);
  });

  test("prompts, resources, completions and subscriptions", async () => {
    await same(async (url) => {
      await using connection = await connected(url, able({}));
      const { client } = connection;
      const uri = "demo://resource/dynamic/text/1";
      const untimed = (value) => JSON.parse(JSON.stringify(value).replace(/\d{1,2}:\d{2}:\d{2}( [AP]M)?/g, "<time>"));
      return untimed({
        ...{ prompts: await client.listPrompts(), prompt: await client.getPrompt({ name: "args-prompt", arguments: { city: "Bonn" } }) },
        ...{ resources: await client.listResources(), templates: await client.listResourceTemplates(), resource: await client.readResource({ uri }) },
        completion: await client.complete({ ref: { type: "ref/prompt", name: "completable-prompt" }, argument: { name: "department", value: "E" } }),
        ...{ subscribed: await client.subscribeResource({ uri }), unsubscribed: await client.unsubscribeResource({ uri }) },
        ...{ pong: await client.ping(), nowhere: await outcome(client.readResource({ uri: "demo://nowhere" })) },
      });
    });
  });

  test("a list of tools that grows after the handshake", async () => {
    await same(async (url) => {
      const how = able({ sampling: {} });
      await using connection = await connected(url, how);
      const { client } = connection;
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => {});
      return (await client.listTools()).tools.map(({ name }) => name);
    });
  });

  test("a session that is ended is unknown afterwards", async () => {
    const { status } = await same(async (url) => {
      await using connection = await connected(url, able({}));
      const { transport } = connection;
      const { sessionId } = transport;
      assert.match(sessionId, /^[0-9a-f-]{36}$/);
      await transport.terminateSession();
      const response = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-session-id": sessionId },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
      });
      return { status: response.status, body: await response.json() };
    });
    assert.ok(status >= 400 && status < 500, `${status}`);
  });

  test("a connection that is lost in mid-call is taken up again, and nothing is missed", async () => {
    const { progress, resumed } = await same(async (url) => {
      // Breaks the call's stream after its first whole event, as a network would; the client takes it up again by itself.
      let broken = false;
      let resumed;
      const breaking = async (input, init) => {
        const last = new Headers(init?.headers).get("last-event-id");
        if (last) resumed = true;
        const response = await fetch(input, init);
        if (broken || !String(init?.body).includes('"tools/call"') || !response.body) return response;
        broken = true;
        const reader = response.body.getReader();
        const body = new ReadableStream({
          async pull(controller) {
            let seen = "";
            while (!seen.includes("\n\n")) {
              const { done, value } = await reader.read();
              if (done) return controller.close();
              seen += new TextDecoder().decode(value);
              controller.enqueue(value);
            }
            // Read before the error, which would take what is queued with it.
            await sleep(50);
            await reader.cancel();
            controller.error(new TypeError("terminated"));
          },
        }, { highWaterMark: 0 });
        return new Response(body, response);
      };
      // Late enough for the server to be done: what it says after a stream was taken up it doesn't send there.
      const reconnectionOptions = { initialReconnectionDelay: 3_000, maxReconnectionDelay: 3_000, reconnectionDelayGrowFactor: 1, maxRetries: 3 };
      await using connection = await connected(url, able({}), { fetch: breaking, reconnectionOptions });
      const progress = [];
      const result = await connection.client.callTool(
        { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 4 } },
        CallToolResultSchema,
        { onprogress: ({ progress: at }) => progress.push(at) },
      );
      return { progress, resumed, result };
    });
    assert.deepEqual(progress, [1, 2, 3, 4]);
    assert.equal(resumed, true);
  });
});

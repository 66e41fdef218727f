// What the gateway knows of the upstream's tools: where from, for whom, for how long, and what it does where it knows nothing.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { atOnce, metrics, pass, ran, refusalOf, until } from "./calls.mjs";
import { start as startInWrangler } from "./harness.mjs";
import { SLOW, ask, call, caller, came, events, gateway, left, pair, paused, text } from "./upstreams/gateway.mjs";
import { ECHO, anyTool, event, json, onCall, result, start as scripted, stream } from "./upstreams/scripted.mjs";

const MODERN = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
};

const MODERN_HEADERS = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo" };

/** Calls echo in the revision of 2026-07-28. */
const modern = (sluice, { address, headers }) =>
  ask(sluice, { address, headers: { ...headers, ...MODERN_HEADERS } }, "tools/call", { name: "echo", arguments: { text: "x" }, _meta: MODERN });

const tool = (name, properties, required = Object.keys(properties), more = {}) => ({
  name,
  inputSchema: { type: "object", properties, required, ...more },
});

/** Told that arguments don't fit, and which; nothing was charged. */
function unfit(answer, ...names) {
  assert.deepEqual([answer.status, answer.result?.isError, refusalOf(answer)], [200, true, undefined], answer.text);
  for (const name of names) assert.ok(text(answer).includes(name), `${name}: ${text(answer)}`);
}

const isList = (seen) => seen.messages[0]?.method === "tools/list";
const unchecked = async (sluice) => (await metrics(sluice)).mcp_unchecked_calls_total ?? 0;

describe("arguments are held against the upstream's own schema:", () => {
  const both = gateway();

  test("what doesn't fit is told by name, free, and isn't sent", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [tool("book", { city: { type: "string", minLength: 2 }, nights: { type: "integer", maximum: 30 } }, ["city"], { additionalProperties: false })];
    const who = caller();
    for (const [args, ...names] of [
      [{}, "city"],
      [{ city: 7 }, "city"],
      [{ city: "B" }, "city"],
      [{ city: "Bonn", nights: 31 }, "nights"],
      [{ city: "Bonn", nights: 1.5 }, "nights"],
      [{ city: "Bonn", guests: 2 }, "guests"],
    ]) {
      unfit(await call(sluice, who, "book", args), ...names);
    }
    assert.deepEqual(upstream.calls(), []);
    const answer = await call(sluice, who, "book", { city: "Bonn", nights: 30 });
    assert.ok(ran(answer), answer.text);
    assert.equal(left(answer), 29);
    assert.equal((await metrics(sluice))['mcp_invalid_calls_total{tool="book"}'], 6);
  });

  test("no arguments are an empty object", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [anyTool("free"), ECHO];
    const who = caller();
    came(await ask(sluice, who, "tools/call", { name: "free" }), "{}");
    unfit(await ask(sluice, who, "tools/call", { name: "echo" }), "text");
  });

  test("by the rules of its dialect", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [
      tool("local", { at: { $ref: "#/$defs/place" } }, ["at"], { $defs: { place: { type: "object", required: ["city"] } } }),
      { name: "seven", inputSchema: { $schema: "http://json-schema.org/draft-07/schema#", type: "object", properties: { a: { type: "number" } }, dependencies: { a: ["b"] } } },
      { name: "either", inputSchema: { type: "object", anyOf: [{ required: ["phone"] }, { required: ["mail"] }] } },
    ];
    const who = caller();
    unfit(await call(sluice, who, "local", { at: {} }), "city");
    came(await call(sluice, who, "local", { at: { city: "Bonn" } }), '{"at":{"city":"Bonn"}}');
    unfit(await call(sluice, who, "seven", { a: 1 }));
    came(await call(sluice, who, "seven", { a: 1, b: 2 }), '{"a":1,"b":2}');
    unfit(await call(sluice, who, "either", {}));
    came(await call(sluice, who, "either", { mail: "a" }), '{"mail":"a"}');
  });

  test("a schema that can't be compiled stops no call of its tool, and nothing is fetched for it", async () => {
    await using elsewhere = await scripted();
    const { sluice, upstream } = both;
    const schemas = {
      pattern: { type: "object", properties: { a: { type: "string", pattern: "(" } } },
      lookahead: { type: "object", properties: { a: { type: "string", pattern: "^(?=.*\\d)(?<x>a)\\k<x>" } } },
      nowhere: { type: "object", properties: { a: { $ref: "#/$defs/none" } } },
      remote: { type: "object", properties: { a: { $ref: `${elsewhere.origin}/schema.json` } } },
      nonsense: { type: "nothing that there is", properties: 7 },
      dialect: { $schema: "https://schema.example/unknown", type: "object" },
      text: "a schema",
    };
    upstream.tools = [...Object.entries(schemas).map(([name, inputSchema]) => ({ name, inputSchema })), { name: "none" }];
    const who = caller();
    for (const { name } of upstream.tools) came(await call(sluice, who, name, { a: "x" }), '{"a":"x"}');
    assert.equal(upstream.calls().length, upstream.tools.length);
    assert.deepEqual(elsewhere.seen, []);
    // And the tools beside it are still checked.
    upstream.tools = [...upstream.tools, ECHO];
    unfit(await call(sluice, caller(), "echo", {}), "text");
  });
});

test("a check that would take for ever isn't made", async () => {
  await using both = await pair();
  const { sluice, upstream } = both;
  const branch = (op) => ({ properties: { left: { $ref: "#" }, op: { const: op } } });
  const chain = Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => [n, { allOf: [{ $ref: `#/$defs/${n + 1}` }, { $ref: `#/$defs/${n + 1}` }] }]),
  );
  upstream.tools = [
    { name: "filter", inputSchema: { type: "object", oneOf: [branch("and"), branch("or")] } },
    { name: "chain", inputSchema: { type: "object", $defs: { ...chain, 40: {} }, $ref: "#/$defs/0" } },
    { name: "many", inputSchema: { type: "object", properties: { a: { items: { type: "string" } } } } },
  ];
  const deep = (levels) => (levels === 0 ? {} : { left: deep(levels - 1), op: "or" });
  for (const [name, args] of [["filter", deep(60)], ["chain", {}], ["many", { a: Array(100_000).fill(1) }]]) {
    assert.ok(ran(await call(sluice, caller(), name, args)), name);
  }
  unfit(await call(sluice, caller(), "many", { a: [1] }), "/a/0");
});

describe("the list", () => {
  const both = gateway();

  test("is asked for at the first call, with the client's own headers, and once", async () => {
    const { sluice, upstream } = both;
    const who = caller({ "mcp-session-id": "s-1", cookie: "a=b", "x-api-key": "k", "mcp-protocol-version": "2025-11-25", "user-agent": "own/1" });
    for (let id = 0; id < 3; id += 1) came(await call(sluice, who, "echo", { text: "x" }, id), "x");
    assert.deepEqual(upstream.seen.map(({ messages: [{ method }] }) => method), ["tools/list", "tools/call", "tools/call", "tools/call"]);
    const [{ headers, method, url }] = upstream.seen;
    assert.deepEqual([method, url], ["POST", "/mcp"]);
    const expected = { ...who.headers, "cf-connecting-ip": who.address, "x-forwarded-for": who.address };
    for (const [name, value] of Object.entries(expected)) assert.equal(headers[name], value, name);
    assert.match(headers.accept, /application\/json/);
    assert.match(headers["content-type"], /^application\/json/);
  });

  test("is asked for without what belongs to the call alone", async () => {
    const { sluice, upstream } = both;
    const own = Object.fromEntries(["idempotency-key", "dpop", "content-digest", "digest", "signature", "signature-input", "last-event-id", "mcp-param-text"].map((name) => [name, "x"]));
    came(await call(sluice, caller(own)), "hello");
    const [listed, called] = upstream.seen.map(({ headers }) => Object.keys(own).filter((name) => headers[name] === "x"));
    assert.deepEqual([listed, called], [[], Object.keys(own)]);
  });

  test("is asked for in the call's own revision", async () => {
    const { sluice, upstream } = both;
    const answer = await modern(sluice, caller());
    came(answer, "x");
    const [{ headers: listed, messages: [list] }] = upstream.seen;
    assert.deepEqual([list.method, listed["mcp-method"], listed["mcp-name"], listed["mcp-protocol-version"]], ["tools/list", "tools/list", undefined, "2026-07-28"]);
    assert.equal(list.params._meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert.deepEqual(list.params._meta["io.modelcontextprotocol/clientCapabilities"], {});
  });

  test("is learnt when it passes by, as JSON or as an event", async () => {
    const { sluice, upstream } = both;
    for (const asEvent of [false, true]) {
      const who = caller();
      upstream.forget();
      upstream.respond(asEvent && ((seen, response, next) => {
        if (!isList(seen)) return next();
        stream(response);
        response.end(event({ jsonrpc: "2.0", id: seen.messages[0].id, result: { tools: upstream.tools } }, "e-1"));
      }));
      assert.equal((await ask(sluice, who, "tools/list", undefined, "mine")).status, 200);
      came(await call(sluice, who), "hello");
      assert.equal(upstream.lists().length, 1, "the client's own");
    }
  });

  test("is understood when its answer is a stream", async () => {
    const { sluice, upstream } = both;
    upstream.respond((seen, response, next) => {
      if (!isList(seen)) return next();
      stream(response);
      response.write(event({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "x" } }, "e-1"));
      response.end(event({ jsonrpc: "2.0", id: seen.messages[0].id, result: { tools: upstream.tools } }, "e-2"));
    });
    unfit(await call(sluice, caller(), "echo", {}), "text");
  });

  test("is asked for in all its pages", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [...Array.from({ length: 4 }, (_, at) => anyTool(`tool_${at}`)), ECHO];
    upstream.page = 2;
    const who = caller();
    unfit(await call(sluice, who, "echo", {}), "text");
    const cursors = upstream.lists().map(({ params }) => params?.cursor);
    assert.deepEqual(cursors.slice(0, 3), [undefined, "2", "4"]);
    assert.deepEqual(upstream.calls(), []);
  });

  test("whose pages have no end stops nothing", async () => {
    const { sluice, upstream } = both;
    upstream.list = { nextCursor: "again" };
    const who = caller();
    came(await call(sluice, who), "hello");
    assert.ok(upstream.lists().length < 2_000, `${upstream.lists().length}`);
  });

  test("of which one page passed by isn't taken for the whole", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [anyTool("first"), ECHO];
    upstream.page = 1;
    const who = caller();
    await ask(sluice, who, "tools/list");
    unfit(await call(sluice, who, "echo", {}), "text");
    assert.deepEqual(upstream.calls(), []);
  });

  test("is asked for once more before arguments are refused, and a schema that has changed is the one that counts", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    upstream.forget();
    unfit(await call(sluice, who, "echo", {}), "text");
    assert.deepEqual([upstream.lists().length, upstream.calls().length], [1, 0]);
    upstream.tools = [tool("echo", { words: { type: "array" } })];
    came(await call(sluice, who, "echo", { words: ["a"] }), '{"words":["a"]}');
    unfit(await call(sluice, who, "echo", { text: "hello" }), "words");
  });

  test("is asked for anew when a call names a tool that isn't in it", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    upstream.tools = [ECHO, tool("new", { size: { type: "integer" } })];
    unfit(await call(sluice, who, "new", { size: "large" }), "size");
    came(await call(sluice, who, "new", { size: 1 }), '{"size":1}');
    assert.equal(upstream.calls().filter(({ params }) => params.name === "new").length, 1);
  });

  test("isn't asked for again and again when a tool stays unknown; the call is charged and sent", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    const before = upstream.lists().length;
    const started = performance.now();
    for (let id = 0; id < 5; id += 1) {
      const answer = await call(sluice, who, `unknown_${id}`, { a: 1 }, id);
      assert.equal(answer.error?.code, -32602, "the upstream's own answer");
      assert.match(answer.error.message, /Unknown tool/);
      assert.equal(left(answer), 28 - id);
    }
    const most = 1 + Math.floor((performance.now() - started) / 10_000);
    assert.ok(upstream.lists().length - before <= most, `${upstream.lists().length - before} times, and at most once in 10 s`);
    assert.equal(upstream.calls().length, 6);
  });

  test("may differ from session to session: what only another session has is still sent", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    upstream.respond((seen, response, next) => {
      if (seen.headers["mcp-session-id"] === "b") upstream.tools = [ECHO, anyTool("of_b")];
      else upstream.tools = [ECHO];
      next();
    });
    came(await call(sluice, { ...who, headers: { ...who.headers, "mcp-session-id": "a" } }), "hello");
    came(await call(sluice, { ...who, headers: { ...who.headers, "mcp-session-id": "b" } }, "of_b", {}), "{}");
  });
});

test("while the server wants a pause the list isn't asked for, and the call is refused at once", async () => {
  await using both = await pair();
  const { sluice, upstream } = both;
  const modes = { call: (seen) => !isList(seen), list: isList };
  for (const [what, meets] of Object.entries(modes)) {
    const who = caller();
    upstream.forget();
    // A list that is old at once would be asked for each time.
    upstream.list = { ttlMs: 0 };
    upstream.respond((seen, response, next) => (meets(seen) ? json(response, {}, 429, { "retry-after": "1000" }) : next()));
    for (let id = 1; id <= 3; id += 1) assert.ok(paused(await call(sluice, who, "echo", { text: "x" }, id)) > 500_000, what);
    assert.deepEqual(upstream.seen.map(({ messages: [{ method }] }) => method), what === "list" ? ["tools/list"] : ["tools/list", "tools/call"]);
  }
});

test("all pages of a list together take no longer than MCP_UPSTREAM_TIMEOUT_MS", async () => {
  await using both = await pair({ MCP_UPSTREAM_TIMEOUT_MS: "1000" });
  const { sluice, upstream } = both;
  upstream.list = { nextCursor: "again" };
  upstream.respond(async (seen, response, next) => {
    if (!isList(seen)) return next();
    // The beginning comes in time, the end of the second page never.
    if (seen.messages[0].params?.cursor === undefined) return next();
    response.writeHead(200, { "content-type": "application/json" });
    response.write("{");
  });
  const started = performance.now();
  came(await call(sluice, caller()), "hello");
  const took = performance.now() - started;
  assert.ok(took > 900 && took < 8_000, `${took}`);
  await until(() => upstream.seen.filter(isList).at(-1).gone, "what was given up is given up behind too");
});

test("the list of one session refuses no call of another, and makes none repeatable", async () => {
  await using both = await pair();
  const { sluice, upstream } = both;
  const who = caller();
  const within = (session) => ({ ...who, headers: { ...who.headers, "mcp-session-id": session } });
  upstream.respond((seen, response, next) => {
    const isStrict = seen.headers["mcp-session-id"] === "strict";
    upstream.tools = isStrict ? [{ ...tool("echo", { text: {}, reason: {} }), annotations: { readOnlyHint: true } }] : [ECHO];
    return isStrict || isList(seen) ? next() : response.destroy();
  });
  assert.ok(ran(await call(sluice, within("strict"), "echo", { text: "x", reason: "y" })));
  upstream.forget();
  assert.match(text(await call(sluice, within("other"), "echo", { text: "x", reason: "y" })), /may have run/);
  assert.equal(upstream.calls().length, 1, "it reached the server, and once");
});

describe("a list that can't be had", () => {
  const both = gateway({ MCP_UPSTREAM_TIMEOUT_MS: "700" });
  const faults = {
    "since the upstream fails at it": (_, response) => json(response, { oops: true }, 500),
    "since it is an error": (seen, response) => json(response, { jsonrpc: "2.0", id: seen.messages[0].id, error: { code: -32601, message: "no" } }),
    "since it is HTML": (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>tools</h1>"),
    "since it is no list": (seen, response) => json(response, { jsonrpc: "2.0", id: seen.messages[0].id, result: { tools: { echo: 1 } } }),
    "since the connection is reset": (_, response) => response.destroy(),
    "since it never begins": () => {},
    "since its second page is missing": (seen, response) =>
      json(response, { jsonrpc: "2.0", id: seen.messages[0].id, ...(seen.messages[0].params?.cursor ? { error: { code: 1, message: "no" } } : { result: { tools: [], nextCursor: "2" } }) }),
  };
  for (const [what, fault] of Object.entries(faults)) {
    test(`${what} stops no call: it is charged, sent unchecked, and counted`, async () => {
      const { sluice, upstream } = both;
      upstream.respond((seen, response, next) => (isList(seen) ? fault(seen, response) : next()));
      const who = caller();
      const before = await unchecked(sluice);
      const answer = await call(sluice, who, "echo", { text: 7 });
      came(answer, 7);
      assert.equal(left(answer), 29);
      await until(async () => (await unchecked(sluice)) === before + 1, "it is counted");
    });
  }

  test("still leaves calls limited, and badly formed ones refused", async () => {
    const { sluice, upstream } = both;
    upstream.respond((seen, response, next) => (isList(seen) ? json(response, {}, 500) : next()));
    const who = caller();
    assert.equal((await call(sluice, who, 7, {})).error.code, -32602);
    const answers = await atOnce(40, (id) => call(sluice, who, "echo", { text: "x" }, id));
    assert.equal(answers.filter(ran).length, 30);
    assert.equal(upstream.calls().length, 30);
  });
});

describe("a list is of those with the same credentials:", () => {
  const both = gateway();
  const STRICT = [tool("echo", { text: { type: "string" }, reason: { type: "string" } })];

  for (const [header, one, other] of [
    ["authorization", "Bearer a-share", "Bearer b-share"],
    ["cookie", "session=a-share", "session=b-share"],
    ["x-api-key", "a-share", "b-share"],
  ]) {
    test(`another ${header} has another`, async () => {
      const { sluice, upstream } = both;
      upstream.respond((seen, _, next) => {
        upstream.tools = seen.headers[header] === one ? STRICT : [ECHO];
        next();
      });
      const { address } = caller();
      unfit(await call(sluice, { address, headers: { [header]: one } }), "reason");
      upstream.forget();
      came(await call(sluice, { address, headers: { [header]: other } }), "hello");
      assert.equal(upstream.lists().length, 1, "asked for by itself");
      unfit(await call(sluice, { address, headers: { [header]: one } }), "reason");
      // Nor does one with a credential serve those without any.
      came(await call(sluice, { address }), "hello");
    });
  }

  test("those without any share one, unless the server says that it is private", async () => {
    const anonymous = () => ({ address: caller().address });
    for (const [cacheScope, lists] of [["public", 1], ["private", 3]]) {
      await using fresh = await pair();
      const { sluice, upstream } = fresh;
      upstream.list = { ttlMs: 600_000, cacheScope };
      for (let n = 0; n < 3; n += 1) came(await modern(sluice, anonymous()), "x");
      assert.equal(upstream.lists().length, lists, cacheScope);
    }
  });
});

test("a list that is for anybody is kept for the isolates to come, and others aren't", async () => {
  const upstream = await scripted();
  const vars = { ...SLOW, MCP_UPSTREAM: String(upstream.url) };
  try {
    for (const [list, asked] of [[{ cacheScope: "public" }, 1], [{}, 2], [{ cacheScope: "private" }, 2]]) {
      upstream.list = list;
      // Under an address of its own, since what is kept outlives the Worker.
      await using sluice = await startInWrangler({ vars });
      const who = { address: "192.0.2.1" };
      came(await call(sluice, who), "hello");
      await sluice.update({ vars: { LATER: "1" } });
      came(await call(sluice, who), "hello");
      assert.equal(upstream.lists().length, asked, JSON.stringify(list));
      upstream.forget();
    }
  } finally {
    await upstream.close();
  }
});

describe("a list is dropped", () => {
  const both = gateway();
  const CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

  /** Knows the list of this caller, and that it isn't asked for without need. */
  async function known({ sluice, upstream }, who) {
    came(await call(sluice, who), "hello");
    came(await call(sluice, who), "hello");
    assert.equal(upstream.lists().length, 1);
  }

  test("when a GET stream says that it has changed", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    await known(both, who);
    upstream.respond((seen, response, next) => {
      if (seen.method !== "GET") return next();
      stream(response);
      response.write(event(CHANGED));
    });
    const read = events(await sluice.fetch("/mcp", { ...who, headers: { ...who.headers, accept: "text/event-stream" } }));
    assert.match(await read.next(), /list_changed/, "the client is told too");
    came(await call(sluice, who), "hello");
    assert.equal(upstream.lists().length, 2);
    await read.close();
  });

  test("when the stream of another call or message says so", async () => {
    const { sluice, upstream } = both;
    for (const method of ["tools/call", "ping"]) {
      const who = caller();
      upstream.forget();
      upstream.respond(undefined);
      await known(both, who);
      upstream.respond((seen, response, next) => {
        if (seen.messages[0].method !== method) return next();
        stream(response);
        response.write(event(CHANGED));
        response.end(event(result(seen.messages[0].id, "x")));
      });
      await (method === "ping" ? ask(sluice, who, "ping") : call(sluice, who));
      upstream.respond(undefined);
      came(await call(sluice, who), "hello");
      assert.equal(upstream.lists().length, 2, method);
    }
  });

  test("when its time is over", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    upstream.list = { ttlMs: 2_000, cacheScope: "private" };
    came(await modern(sluice, who), "x");
    await pass(2_100);
    came(await modern(sluice, who), "x");
    assert.equal(upstream.lists().length, 2);
  });

  test("and what is learnt then counts at once", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    await known(both, who);
    upstream.respond(onCall((seen, response) => {
      stream(response);
      response.write(event(CHANGED));
      response.end(event(result(seen.messages[0].id, "x")));
    }));
    await call(sluice, who);
    upstream.respond(undefined);
    upstream.tools = [tool("echo", { text: { type: "string" }, reason: { type: "string" } })];
    unfit(await call(sluice, who), "reason");
  });

  test("but a list that changes whenever it is asked for is asked for twice at most on account of one call", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    upstream.respond((seen, response, next) => {
      if (!isList(seen)) return next();
      stream(response);
      response.write(event(CHANGED));
      response.end(event({ jsonrpc: "2.0", id: seen.messages[0].id, result: { tools: upstream.tools } }));
    });
    const other = caller();
    // The stream of the client's own list says so; Sluice's own question isn't looked at for it.
    const storm = Array.from({ length: 20 }, (_, id) => ask(sluice, other, "tools/list", undefined, `own-${id}`));
    came(await call(sluice, who), "hello");
    await Promise.all(storm);
    const asked = upstream.lists().filter(({ id }) => !String(id).startsWith("own-"));
    assert.ok(asked.length <= 2, `${asked.length}`);
  });
});

// The gateway: what passes as it is, what is judged before anything is sent on, and the limits, which are those of a server of one's own.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { atOnce, message, metrics, ran, refusalOf, request, until } from "./calls.mjs";
import { start as startHarness } from "./harness.mjs";
import { fromNow, hmac } from "./issuer.mjs";
import { SLOW, ask, call, caller, came, events, gate, gateway, hold, left, messages, pair, text, through } from "./upstreams/gateway.mjs";
import { ECHO, anyTool, event, json, onCall, result, stream } from "./upstreams/scripted.mjs";

const JSON_TYPE = { "content-type": "application/json" };
const STREAM = { accept: "text/event-stream" };
const CLIENT = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
const REFUSED = /^Rate limit reached for echo\. Wait \d+ seconds before the next tool call\.$/;

const post = (sluice, body, { address, headers } = {}) => sluice.mcp(body, { address, headers });
const get = (sluice, { address, headers } = {}, path = "/mcp") => sluice.fetch(path, { address, headers: { ...STREAM, ...headers } });
const echoes = (count, from = 1) => Array.from({ length: count }, (_, index) => message("echo", { text: "hello" }, from + index));

/** Uses up the caller's bucket. */
const empty = (sluice, who) => atOnce(30, (id) => call(sluice, who, "echo", { text: "x" }, id));

describe("everything but tools/call passes as it is:", () => {
  const both = gateway({ MCP_RATE_LIMIT_BURST: "30" });

  test("the bytes of a message, whatever it is and however it is written", async () => {
    const { sluice, upstream } = both;
    const bodies = [
      '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      ' {\n\t"id" : 12345678901234567890, "method":"\\u0070ing" , "params":{"b":1.0,"a":1e300},"jsonrpc":"2.0" }\n',
      '{"jsonrpc":"2.0","id":"ä😀","method":"no/such/method","params":[1,2]}',
      '{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2099-01-01","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}',
      '{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}',
      '{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":"no"}}',
      '{"jsonrpc":"2.0","id":9,"method":"prompts/get","params":{"name":"p","arguments":{"Name":"a","name":"b"}}}',
      '[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"}]',
    ];
    for (const body of bodies) {
      upstream.forget();
      await post(sluice, body, caller());
      assert.deepEqual(upstream.seen.map((seen) => seen.body), [body]);
    }
  });

  test("a revision that nobody knows yet, and its headers", async () => {
    const { sluice, upstream } = both;
    const headers = { "mcp-protocol-version": "2099-01-01", "mcp-method": "future/thing", "mcp-param-region": "north", "x-any": "a, b" };
    const answer = await ask(sluice, caller(headers), "future/thing", { _meta: { "io.modelcontextprotocol/protocolVersion": "2099-01-01" } });
    assert.deepEqual([answer.status, answer.error.code], [200, -32601], "the upstream's own answer");
    for (const [name, value] of Object.entries(headers)) assert.equal(upstream.seen[0].headers[name], value);
  });

  test("status, headers and body of the answer", async () => {
    const { sluice, upstream } = both;
    const body = '{ "jsonrpc":"2.0",\n"id":1,"error":{"code":-32001,"message":"Session not found"} }';
    upstream.respond((_, response) => {
      response.setHeader("set-cookie", ["a=1; Path=/", "b=2"]);
      json(response, body, 404, { "x-own": "kept", "mcp-session-id": "s-1", "cache-control": "max-age=7" });
    });
    const answer = await ask(sluice, caller(), "ping");
    assert.deepEqual([answer.status, answer.text], [404, body]);
    assert.deepEqual(["x-own", "mcp-session-id", "cache-control"].map((name) => answer.headers.get(name)), ["kept", "s-1", "max-age=7"]);
    assert.deepEqual(answer.headers.getSetCookie(), ["a=1; Path=/", "b=2"]);
    assert.equal(answer.headers.get("ratelimit"), null, "it isn't a tool call");
  });

  test("an answer that is no JSON, of any status", async () => {
    const { sluice, upstream } = both;
    for (const status of [200, 418, 500]) {
      upstream.respond((_, response) => response.writeHead(status, { "content-type": "text/html" }).end("<h1>hello</h1>"));
      const answer = await ask(sluice, caller(), "ping");
      assert.deepEqual([answer.status, answer.headers.get("content-type"), answer.text], [status, "text/html", "<h1>hello</h1>"]);
    }
  });

  test("a 401 and its challenge, to any method", async () => {
    const { sluice, upstream } = both;
    const challenge = 'Bearer resource_metadata="https://upstream.example/.well-known/oauth-protected-resource", scope="a b"';
    upstream.respond((_, response) => response.writeHead(401, { "www-authenticate": challenge }).end());
    for (const body of [request("initialize", CLIENT), request("tools/list"), message()]) {
      const answer = await post(sluice, JSON.stringify(body), caller());
      assert.deepEqual([answer.status, answer.headers.get("www-authenticate"), answer.text], [401, challenge, ""], body.method);
    }
    for (const method of ["GET", "DELETE"]) {
      const response = await sluice.fetch("/mcp", { method, headers: STREAM });
      assert.deepEqual([response.status, response.headers.get("www-authenticate")], [401, challenge], method);
    }
  });

  test("a session's id, both ways, and DELETE", async () => {
    const { sluice, upstream } = both;
    upstream.respond((seen, response, next) => {
      response.setHeader("mcp-session-id", "session-1");
      if (seen.method === "DELETE") return response.writeHead(204).end();
      next();
    });
    const who = caller();
    const opened = await ask(sluice, who, "initialize", CLIENT);
    assert.equal(opened.headers.get("mcp-session-id"), "session-1");
    const within = { ...who, headers: { ...who.headers, "mcp-session-id": "session-1" } };
    const noted = await post(sluice, { jsonrpc: "2.0", method: "notifications/initialized" }, within);
    assert.deepEqual([noted.status, noted.text], [202, ""]);
    came(await call(sluice, within), "hello");
    const ended = await sluice.fetch("/mcp", { method: "DELETE", ...within });
    assert.equal(ended.status, 204);
    assert.equal(upstream.seen[0].headers["mcp-session-id"], undefined);
    for (const seen of upstream.seen.slice(1)) assert.equal(seen.headers["mcp-session-id"], "session-1", seen.body);
    assert.equal(upstream.seen.at(-1).method, "DELETE");
  });

  test("a GET stream, event by event, with where the client left off", async () => {
    const { sluice, upstream } = both;
    const more = gate();
    upstream.respond(async (_, response) => {
      stream(response, { "mcp-session-id": "s" });
      response.write(": hello\n\n");
      await more.promise;
      response.end(event({ jsonrpc: "2.0", method: "notifications/message" }, "e-2"));
    });
    const response = await get(sluice, { headers: { "last-event-id": "e-1", "mcp-session-id": "s" } });
    assert.deepEqual([response.status, response.headers.get("content-type")], [200, "text/event-stream"]);
    const read = events(response);
    assert.equal(await read.next(), ": hello", "before the stream has ended");
    more.resolve();
    assert.equal(await read.next(), event({ jsonrpc: "2.0", method: "notifications/message" }, "e-2").trimEnd());
    assert.equal(await read.next(), undefined);
    assert.deepEqual([upstream.seen[0].headers["last-event-id"], upstream.seen[0].headers.accept], ["e-1", "text/event-stream"]);
  });

  test("a stream that a POST holds open", async () => {
    const { sluice, upstream } = both;
    const more = gate();
    upstream.respond(async (_, response) => {
      stream(response);
      response.write(event({ jsonrpc: "2.0", method: "notifications/subscriptions/acknowledged" }));
      await more.promise;
      response.end(event({ jsonrpc: "2.0", method: "notifications/tools/list_changed" }));
    });
    const response = await sluice.fetch("/mcp", {
      method: "POST",
      headers: { ...JSON_TYPE, accept: "application/json, text/event-stream" },
      body: JSON.stringify(request("subscriptions/listen", { notifications: { toolsListChanged: true } })),
    });
    const read = events(response);
    assert.match(await read.next(), /acknowledged/);
    more.resolve();
    assert.match(await read.next(), /list_changed/);
  });

  test("the answer to a call, streamed, with all that comes before it", async () => {
    const { sluice, upstream } = both;
    const more = gate();
    const progress = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: 1, progress: 1 } };
    const rest = event({ jsonrpc: "2.0", id: "s", method: "sampling/createMessage", params: {} }, 2) + event(result(1, "done"), 3);
    upstream.respond(onCall(async (_, response) => {
      stream(response);
      response.write(event(progress, 1));
      await more.promise;
      response.end(rest);
    }));
    const { address, headers } = caller();
    const response = await sluice.fetch("/mcp", {
      method: "POST",
      address,
      headers: { ...JSON_TYPE, accept: "application/json, text/event-stream", ...headers },
      body: JSON.stringify(message()),
    });
    assert.equal(left(response), 29, "the headers tell what is left");
    assert.equal(response.headers.get("ratelimit-policy"), '"tools-call";q=30;w=30000');
    const read = events(response);
    assert.equal(await read.next(), event(progress, 1).trimEnd(), "before the answer is there");
    more.resolve();
    assert.equal(`${await read.next()}\n\n${await read.next()}\n\n`, rest, "the bytes of the upstream");
    assert.equal(await read.next(), undefined);
  });

  test("the body of a call's answer, untouched", async () => {
    const { sluice, upstream } = both;
    const body = '{"result" : {"content":[{"type":"text","text":"\\u00e4"}], "big":12345678901234567890},"id":1,"jsonrpc":"2.0"}\n';
    upstream.respond(onCall((_, response) => json(response, body, 200, { "x-own": "kept" })));
    const answer = await call(sluice, caller());
    assert.deepEqual([answer.text, answer.headers.get("x-own"), left(answer)], [body, "kept", 29]);
  });

  test("an error, and a 4xx or 5xx with JSON, as the answer to a call", async () => {
    const { sluice, upstream } = both;
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, error: { code: -32042, message: "Elsewhere first", data: { elicitations: [] } } });
    for (const status of [200, 400, 404, 500]) {
      upstream.respond(onCall((_, response) => json(response, body, status)));
      const answer = await call(sluice, caller());
      assert.deepEqual([answer.status, answer.text], [status, body]);
    }
  });

  test("an answer in gzip, readable", async () => {
    const { sluice, upstream } = both;
    upstream.respond((seen, response, next) => {
      if (!/\bgzip\b/.test(seen.headers["accept-encoding"] ?? "")) return next();
      const body = seen.messages[0].method === "tools/list" ? { jsonrpc: "2.0", id: seen.messages[0].id, result: { tools: [ECHO] } } : result(1, "packed");
      response.writeHead(200, { ...JSON_TYPE, "content-encoding": "gzip" }).end(gzipSync(JSON.stringify(body)));
    });
    const who = caller({ "accept-encoding": "gzip" });
    assert.equal((await ask(sluice, who, "tools/list")).result.tools.length, 1);
    assert.ok(["packed", "hello"].includes(text(await call(sluice, who))));
  });

  test("OPTIONS, and the CORS of the upstream alone", async () => {
    const { sluice, upstream } = both;
    const cors = { "access-control-allow-origin": "*", "access-control-allow-headers": "x-own", "access-control-max-age": "77" };
    upstream.respond((seen, response, next) => {
      for (const [name, value] of Object.entries(cors)) response.setHeader(name, value);
      if (seen.method === "OPTIONS") return response.writeHead(204).end();
      next();
    });
    const origin = "http://localhost:5173";
    const asked = { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type" };
    const preflight = await sluice.fetch("/mcp", { method: "OPTIONS", headers: asked });
    assert.equal(preflight.status, 204);
    for (const [name, value] of Object.entries(cors)) assert.equal(preflight.headers.get(name), value, name);
    assert.equal(upstream.seen[0].headers["access-control-request-headers"], "content-type");
    const answer = await ask(sluice, caller({ origin }), "ping");
    assert.equal(answer.headers.get("access-control-allow-origin"), "*");
    assert.equal(upstream.seen[1].headers.origin, origin);
  });

  test("the documents under /.well-known, by their path on the upstream's origin", async () => {
    const { sluice, upstream } = both;
    upstream.respond((seen, response) => json(response, { path: seen.url }, 200, { "x-own": "kept" }));
    for (const path of ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/.well-known/any"]) {
      const response = await sluice.fetch(`${path}?a=1`);
      assert.deepEqual([response.status, response.headers.get("x-own"), await response.json()], [200, "kept", { path }]);
    }
    assert.ok(upstream.seen.every(({ method }) => method === "GET"));
    const missing = (_, response) => response.writeHead(404).end("none");
    upstream.respond(missing);
    assert.equal((await sluice.fetch("/.well-known/oauth-protected-resource")).status, 404);
  });
});

describe("where a request goes", () => {
  const both = gateway();

  test("is fixed: neither path, query nor Host leads elsewhere", async () => {
    const { sluice, upstream } = both;
    const { host } = sluice.url;
    assert.equal((await sluice.fetch("/mcp?a=1", { method: "POST", headers: JSON_TYPE, body: JSON.stringify(request("ping")) })).status, 200);
    assert.deepEqual([upstream.seen[0].url, upstream.seen[0].headers.host], ["/mcp", new URL(upstream.url).host]);
    upstream.forget();
    for (const path of ["/", "/mcp/more", "/MCP", "/other", "/sse", "/http://evil.example/"]) {
      assert.equal((await sluice.fetch(path, { method: "POST", headers: JSON_TYPE, body: JSON.stringify(request("ping")) })).status, 404, path);
    }
    for (const path of ["/limits", "/stats", "/metrics", "/healthz"]) assert.equal((await sluice.fetch(path)).status, 200, path);
    assert.deepEqual(upstream.seen, []);
    for (const path of ["/.well-known/%2e%2e/secret", "/.well-known/..%2fsecret", "/.well-known//evil.example/x", "/.well-known/../secret", "/.well-known/..;/secret", "/.well-known/.;/secret", "/.well-known/a;b", "/.well-known/a/.hidden"]) {
      await sluice.raw(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    }
    for (const { url } of upstream.seen) assert.ok(url.startsWith("/.well-known/") && !/[%\\;]|\.\.|.\/\./.test(url), url);
  });

  test("keeps the path that is configured, and /.well-known is at its origin's root", async () => {
    const { upstream } = both;
    await using sluice = await through({ url: `${upstream.origin}/deep/server` });
    await ask(sluice, caller(), "ping");
    await sluice.fetch("/.well-known/oauth-authorization-server");
    await call(sluice, caller());
    assert.deepEqual([...new Set(upstream.seen.map(({ url }) => url))], ["/deep/server", "/.well-known/oauth-authorization-server"]);
  });
});

describe("headers", () => {
  const both = gateway();

  test("that say where a request comes from are set, not copied", async () => {
    const { sluice, upstream } = both;
    const claimed = {
      ...{ "x-forwarded-for": "192.0.2.66, 192.0.2.67", "x-real-ip": "192.0.2.66" },
      ...{ forwarded: "for=192.0.2.66;proto=https" },
    };
    const who = { address: "203.0.113.9", headers: claimed };
    await ask(sluice, who, "ping");
    await call(sluice, who);
    await get(sluice, who);
    await sluice.fetch("/.well-known/any", who);
    assert.ok(upstream.seen.length >= 4);
    for (const { headers, raw, method, body } of upstream.seen) {
      const what = `${method} ${body}`;
      assert.deepEqual([headers["cf-connecting-ip"], headers["x-forwarded-for"]], ["203.0.113.9", "203.0.113.9"], what);
      assert.deepEqual([headers["x-real-ip"], headers.forwarded], [undefined, undefined], what);
      assert.ok(!JSON.stringify(raw).includes("192.0.2.6"), what);
    }
  });

  test("of a hop, and those that Connection names, end there; all others pass", async () => {
    const { sluice, upstream } = both;
    const body = JSON.stringify(request("ping"));
    const lines = [
      ...["POST /mcp HTTP/1.1", `Host: ${sluice.url.host}`, "Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`],
      ...["Connection: close, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "TE: trailers", "Proxy-Connection: keep-alive"],
      ...["Authorization: Bearer t", "Cookie: a=b", "User-Agent: own/1", "X-Api-Key: k", "Accept-Language: de", "Traceparent: 00-1-2-01"],
    ];
    const answer = await sluice.raw(`${lines.join("\r\n")}\r\n\r\n${body}`);
    assert.match(answer, /^HTTP\/1\.1 200 /);
    const { headers } = upstream.seen[0];
    for (const name of ["x-hop", "keep-alive", "te", "proxy-connection"]) assert.equal(headers[name], undefined, name);
    assert.doesNotMatch(headers.connection ?? "", /x-hop/i);
    const kept = ["authorization", "cookie", "user-agent", "x-api-key", "accept-language", "traceparent", "content-type"];
    assert.deepEqual(kept.map((name) => headers[name]), ["Bearer t", "a=b", "own/1", "k", "de", "00-1-2-01", "application/json"]);
  });

  test("of a hop end there on the way back too", async () => {
    const { sluice, upstream } = both;
    upstream.respond((_, response) => json(response, result(1, "x"), 200, { connection: "close, x-back", "x-back": "1", "keep-alive": "timeout=7", "x-own": "kept" }));
    const { headers } = await ask(sluice, caller(), "ping");
    assert.deepEqual(["x-back", "x-own"].map((name) => headers.get(name)), [null, "kept"]);
    assert.notEqual(headers.get("keep-alive"), "timeout=7");
  });
});

// Local workerd hears that a client has left when it writes to it: so the streams go on.
describe("a client that goes away in mid-stream", () => {
  const both = gateway({ MCP_MAX_IN_FLIGHT: "1" });

  const endless = (_, response) => {
    stream(response);
    response.write(": hello\n\n");
    const timer = setInterval(() => response.write(": still here\n\n"), 100);
    response.on("close", () => clearInterval(timer));
  };

  test("cancels its GET stream behind", async () => {
    const { sluice, upstream } = both;
    upstream.respond(endless);
    const read = events(await get(sluice));
    await read.next();
    await read.close();
    await until(() => upstream.seen[0].gone, "the stream behind is closed");
  });

  test("cancels its call behind, and gives its slot back", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    upstream.respond(onCall(endless));
    const leave = new AbortController();
    const response = await sluice.fetch("/mcp", {
      ...{ method: "POST", address: who.address, signal: leave.signal, body: JSON.stringify(message()) },
      headers: { ...JSON_TYPE, accept: "application/json, text/event-stream", ...who.headers },
    });
    await events(response).next();
    assert.equal(refusalOf(await call(sluice, who))?.reason, "busy");
    leave.abort();
    await until(() => upstream.callRequests()[0].gone, "the call behind is closed");
    upstream.respond(undefined);
    await until(async () => ran(await call(sluice, who)), "the slot is free again");
  });
});

// A call that may be sent, to be changed.
const CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}';
const PING = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}';
const NOTE = '{"jsonrpc":"2.0","method":"notifications/x"}';

describe("what could be read in two ways is refused, and nothing of it is sent:", () => {
  const both = gateway({ MCP_MAX_REQUEST_BODY: "4096", MCP_MAX_BATCH: "5" });

  /** Refused with this status and code; the upstream saw nothing, not even a question for its list. */
  function unsent({ upstream }, answer, status, code, what) {
    assert.equal(answer.status, status, `${what}: ${answer.text}`);
    if (code !== undefined) assert.ok([code].flat().includes(answer.error?.code), `${what}: ${answer.text}`);
    assert.deepEqual(upstream.seen, [], what);
  }

  const bodies = {
    "no JSON": "{",
    "nothing at all": "",
    "bytes after the value": `${CALL}x`,
    "a second value": `${PING}${CALL}`,
    "a second value on a line of its own": `${PING}\n${CALL}`,
    "a zero byte after the value": `${PING}\0`,
    "a comment": `${PING.slice(0, -1)}/* */}`,
    "a comma too many": `${PING.slice(0, -1)},}`,
    "invalid UTF-8 in a text": Buffer.concat([Buffer.from(CALL.slice(0, -4)), Buffer.from([0xff]), Buffer.from(CALL.slice(-4))]),
    "an overlong slash": Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"tools'), Buffer.from([0xc0, 0xaf]), Buffer.from('call"}')]),
    "a method twice": PING.replace('"params"', '"method":"tools/call","params"'),
    "a method twice, once by an escape": PING.replace('"params"', '"\\u006dethod":"tools/call","params"'),
    "params twice": CALL.replace('"params"', '"params":{"name":"other"},"params"'),
    "an id twice": CALL.replace('"id":1', '"id":1,"id":2'),
    "a name twice": CALL.replace('"name":"echo"', '"name":"echo","name":"delete"'),
    "arguments twice": CALL.replace('"arguments"', '"arguments":{},"arguments"'),
    "an argument twice": CALL.replace('"text":"x"', '"text":"x","text":"y"'),
    "a member twice deep in another method's params": PING.replace("{}", '{"a":[{"b":{"c":1,"c":1}}]}'),
    "a member twice in a notification": NOTE.replace("{", '{"jsonrpc":"2.0",'),
    "a Method beside the method": PING.replace('"params"', '"Method":"tools/call","params"'),
    "a METHOD alone": PING.replace('"method"', '"METHOD"'),
    "Params beside params": CALL.replace('"params"', '"Params":{"name":"other"},"params"'),
    "params with a long s": CALL.replace('"params"', '"param\u017f":{"name":"other"},"params"'),
    "params with a long s by an escape": CALL.replace('"params"', '"param\\u017F":{"name":"other"},"params"'),
    "an ID": CALL.replace('"id":1', '"id":1,"ID":2'),
    "a JsonRpc": PING.replace("{", '{"JsonRpc":"2.0",'),
    "jsonrpc with a long s": PING.replace("{", '{"j\u017fonrpc":"2.0",'),
    "a Name beside the name": CALL.replace('"name"', '"Name":"delete","name"'),
    "a NAME alone": CALL.replace('"name"', '"NAME"'),
    "Arguments beside arguments": CALL.replace('"arguments"', '"Arguments":{},"arguments"'),
    "arguments with a long s": CALL.replace('"arguments"', '"argument\u017f":{},"arguments"'),
    "a Name in another method's params": PING.replace("{}", '{"Name":"x"}'),
    "a method with a zero character": CALL.replace("tools/call", "tools/call\\u0000"),
    "a method in other letters": CALL.replace("tools/call", "Tools/Call"),
    "a method with a blank": CALL.replace("tools/call", "tools/call "),
    "a name with a zero character": CALL.replace('"name":"echo"', '"name":"echo\\u0000"'),
    "a member whose name ends at a zero character": PING.replace('"params"', '"method\\u0000":"tools/call","params"'),
    "a batch with one such entry": `[${PING},${CALL.replace('"name"', '"Name":"delete","name"')}]`,
    "a batch with a member twice": `[${PING},${PING.replace('"params"', '"id":2,"params"')}]`,
  };
  for (const [what, body] of Object.entries(bodies)) {
    test(what, async () => unsent(both, await post(both.sluice, body, caller()), 400, [-32700, -32600], what));
  }

  test("a body whose type isn't JSON, or that is packed", async () => {
    const types = ["text/plain", "application/x-www-form-urlencoded", "text/json", "application/json-rpc", "multipart/form-data; boundary=x", ""];
    for (const type of types) unsent(both, await post(both.sluice, CALL, { headers: { "content-type": type } }), 415, undefined, type);
    const packed = gzipSync(CALL);
    for (const encoding of ["gzip", "br", "deflate", "gzip, identity", "x"]) {
      const headers = { "content-encoding": encoding };
      unsent(both, await post(both.sluice, packed, { headers }), 415, undefined, encoding);
      unsent(both, await post(both.sluice, CALL, { headers }), 415, undefined, `${encoding}, said of JSON`);
    }
    came(await post(both.sluice, CALL, { headers: { "content-type": "Application/JSON; charset=utf-8", "content-encoding": "identity" } }), "x");
  });

  test("a body that is too large, said or not", async () => {
    const large = CALL.replace('"x"', `"${"x".repeat(4_096)}"`);
    unsent(both, await post(both.sluice, large, caller()), 413, undefined, "with its length");
    const parts = new Blob([large]).stream();
    const response = await both.sluice.fetch("/mcp", { method: "POST", headers: JSON_TYPE, body: parts, duplex: "half" });
    assert.equal(response.status, 413);
    assert.deepEqual(both.upstream.seen, []);
  });

  test("a batch of too many", async () => {
    const batch = (count) => JSON.stringify(Array.from({ length: count }, (_, id) => request("ping", undefined, id)));
    unsent(both, await post(both.sluice, batch(6), caller()), 400, -32600, "six");
    assert.equal((await post(both.sluice, batch(5), caller())).json.length, 5);
  });

  test("a call that nobody could be answered", async () => {
    for (const body of [CALL.replace('"id":1,', ""), CALL.replace('"id":1', '"id":null')]) {
      unsent(both, await post(both.sluice, body, caller()), 400, -32600, body);
    }
  });

  test("a call whose name is no text, or whose arguments are no object", async () => {
    const params = [{ name: 1 }, { name: null }, {}, { name: ["echo"] }, { name: "echo", arguments: [] }, { name: "echo", arguments: "x" }];
    for (const one of [...params, { name: "echo", arguments: null }, undefined, [], "echo"]) {
      const answer = await ask(both.sluice, caller(), "tools/call", one);
      assert.equal(answer.error?.code, -32602, `${JSON.stringify(one)}: ${answer.text}`);
      assert.deepEqual(both.upstream.calls(), []);
    }
  });

  test("what only looks like it passes", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [anyTool("echo")];
    for (const body of [
      CALL.replace('"text":"x"', '"Name":"a","name":"b","Arguments":1,"METHOD":2,"ID":3'),
      CALL.replace('"params":{', '"params":{"Method":"x","ID":1,'),
      CALL.replace('"id":1', '"id":1,"names":{},"identity":1'),
      CALL.replace('"text":"x"', '"a":{"b":1},"c":{"b":1}'),
    ]) {
      upstream.forget();
      const answer = await post(sluice, body, caller());
      assert.ok(ran(answer), `${body}: ${answer.text}`);
      assert.equal(upstream.callRequests()[0].body, body);
    }
  });
});

describe("headers are held against the body:", () => {
  const both = gateway();

  const mismatch = (answer, what) => {
    assert.deepEqual([answer.status, answer.error?.code], [400, -32020], `${what}: ${answer.text}`);
    assert.deepEqual(both.upstream.seen, [], what);
  };

  test("another Mcp-Method or Mcp-Name is refused", async () => {
    const method = { "mcp-method": "tools/call" };
    for (const [headers, body] of [
      [{ "mcp-method": "tools/list" }, message()],
      [{ "mcp-method": "TOOLS/CALL" }, message()],
      [{ "mcp-method": "tools/call, tools/call" }, message()],
      [{ "mcp-method": "" }, message()],
      [method, request("ping")],
      [method, request("tools/list")],
      [{ "mcp-method": "ping" }, message()],
      [{ "mcp-name": "other" }, message()],
      [{ ...method, "mcp-name": "other" }, message()],
      [{ ...method, "mcp-name": "Echo" }, message()],
      [{ ...method, "mcp-name": "echo, echo" }, message()],
      [{ ...method, "mcp-name": "=?base64?b3RoZXI=?=" }, message()],
    ]) {
      mismatch(await post(both.sluice, body, caller(headers)), JSON.stringify(headers));
    }
  });

  for (const [name, value] of [["Mcp-Method", "tools/call"], ["Mcp-Name", "echo"]]) {
    test(`a second ${name} is refused`, async () => {
      const { sluice, upstream } = both;
      const body = JSON.stringify(message());
      const lines = [
        ...["POST /mcp HTTP/1.1", `Host: ${sluice.url.host}`, "Connection: close", "Content-Type: application/json"],
        ...["Accept: application/json, text/event-stream", `Content-Length: ${body.length}`, `${name}: ${value}`, `${name}: ${value}`],
      ];
      const answer = await sluice.raw(`${lines.join("\r\n")}\r\n\r\n${body}`);
      assert.match(answer, /^HTTP\/1\.1 400 /);
      assert.match(answer, /-32020/);
      assert.deepEqual(upstream.seen, []);
    });
  }

  test("the same pass, and so does none", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [ECHO, anyTool("größe")];
    const method = { "mcp-method": "tools/call" };
    came(await call(sluice, caller({ ...method, "mcp-name": "echo" })), "hello");
    came(await call(sluice, caller(method)), "hello");
    came(await call(sluice, caller()), "hello");
    const encoded = `=?base64?${Buffer.from("größe").toString("base64")}?=`;
    came(await call(sluice, caller({ ...method, "mcp-name": encoded }), "größe", {}), "{}");
    assert.equal(upstream.callRequests().at(-1).headers["mcp-name"], encoded);
  });
});

describe("the limit", () => {
  const both = gateway();

  test("of 31 calls the upstream sees 30, and the refusal looks like an answer", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    for (let id = 1; id <= 30; id += 1) {
      const answer = await call(sluice, who, "echo", { text: `${id}` }, id);
      came(answer, `${id}`);
      assert.deepEqual([left(answer), answer.headers.get("ratelimit-policy")], [30 - id, '"tools-call";q=30;w=30000']);
    }
    const refused = await call(sluice, who, "echo", { text: "x" }, "last");
    assert.deepEqual([refused.status, refused.json.id, refused.result.isError], [200, "last", true]);
    const { retryAfterMs, ...rest } = refusalOf(refused);
    assert.deepEqual(rest, { reason: "rate", allowance: "caller", tool: "echo" });
    const told = `Rate limit reached for echo. Wait ${Math.ceil(retryAfterMs / 1_000)} seconds before the next tool call.`;
    assert.deepEqual(refused.result.content, [{ type: "text", text: told }]);
    assert.match(refused.headers.get("content-type"), /^application\/json/);
    assert.equal(left(refused), 0);
    assert.equal(upstream.calls().length, 30);
    came(await call(sluice, caller()), "hello");
  });

  test("holds for calls at once", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    const answers = await atOnce(100, (id) => call(sluice, who, "echo", { text: "x" }, id));
    assert.equal(answers.filter(ran).length, 30);
    assert.equal(upstream.calls().length, 30);
    for (const answer of answers) if (!ran(answer)) assert.match(text(answer), REFUSED);
  });

  test("is told as an event to who takes no JSON", async () => {
    const { sluice } = both;
    const who = caller();
    await empty(sluice, who);
    const refused = await call(sluice, { ...who, headers: { ...who.headers, ...STREAM } });
    assert.deepEqual([refused.status, refused.headers.get("content-type").split(";")[0]], [200, "text/event-stream"]);
    const [, data] = refused.text.match(/^event: message\ndata: (.*)\n\n$/) ?? assert.fail(refused.text);
    assert.match(text(JSON.parse(data)), REFUSED);
    const json = await call(sluice, { ...who, headers: { ...who.headers, accept: "*/*" } });
    assert.match(json.headers.get("content-type"), /^application\/json/);
  });

  test("is told in the words of the call's revision, and with the upstream's CORS", async () => {
    const { sluice, upstream } = both;
    upstream.respond((seen, response, next) => {
      response.setHeader("access-control-allow-origin", "*");
      if (seen.method === "OPTIONS") return response.writeHead(204).end();
      next();
    });
    const who = caller({ origin: "http://localhost:5173" });
    await empty(sluice, who);
    const old = await call(sluice, who);
    assert.equal("resultType" in old.result, false);
    assert.equal(old.headers.get("access-control-allow-origin"), "*");
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": { name: "x", version: "1" },
    };
    const headers = { ...who.headers, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo" };
    const body = request("tools/call", { name: "echo", arguments: { text: "x" }, _meta });
    const modern = await post(sluice, body, { ...who, headers });
    assert.equal(modern.result.resultType, "complete");
    assert.match(text(modern), REFUSED);
  });

  test("doesn't touch what isn't a call, and isn't touched by it", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    const free = async () => {
      assert.equal((await ask(sluice, who, "initialize", CLIENT)).status, 200);
      assert.equal((await post(sluice, { jsonrpc: "2.0", method: "notifications/initialized" }, who)).status, 202);
      for (const method of ["ping", "tools/list", "server/discover", "resources/list"]) assert.equal((await ask(sluice, who, method)).status, 200, method);
    };
    await free();
    assert.equal(left(await call(sluice, who)), 29);
    await empty(sluice, who);
    upstream.forget();
    await free();
    assert.equal(upstream.seen.length, 6);
  });

  test("a caller is an address: neither a session nor a client's own header makes another", async () => {
    const { sluice } = both;
    const { address } = caller();
    let remaining = 30;
    for (const headers of [{ "mcp-session-id": "a" }, { "mcp-session-id": "b" }, { "x-forwarded-for": "192.0.2.1" }, { authorization: "Bearer z" }]) {
      remaining -= 1;
      assert.equal(left(await call(sluice, { address, headers })), remaining);
    }
  });
});

describe("a batch", () => {
  const both = gateway();
  const BATCHES = { "mcp-protocol-version": "2025-03-26" };
  const byId = (json) => Object.fromEntries(json.map((answer) => [answer.id, answer]));

  for (const headers of [BATCHES, {}]) {
    const named = headers === BATCHES ? "2025-03-26" : "no revision";
    test(`of ${named} that fits is sent on, and costs the sum of its calls`, async () => {
      const { sluice, upstream } = both;
      const who = caller(headers);
      const sent = [...echoes(3), request("ping", undefined, "p"), { jsonrpc: "2.0", method: "notifications/x" }];
      const answer = await post(sluice, sent, who);
      assert.deepEqual(answer.json.map(({ id }) => id).sort(), [1, 2, 3, "p"]);
      assert.deepEqual(upstream.calls().map(({ id }) => id).sort(), [1, 2, 3]);
      assert.deepEqual([upstream.messages("ping").length, upstream.messages("notifications/x").length], [1, 1]);
      assert.equal(left(await call(sluice, who)), 26);
    });
  }

  test("over the limit: the upstream sees none of its calls, and all the rest of it", async () => {
    const { sluice, upstream } = both;
    const who = caller(BATCHES);
    assert.equal((await post(sluice, echoes(28), who)).status, 200);
    upstream.forget();
    const sent = [...echoes(3), request("ping", undefined, "p"), { jsonrpc: "2.0", method: "notifications/x" }, request("no/such", undefined, "n")];
    const refused = await post(sluice, sent, who);
    assert.equal(refused.status, 200);
    const answers = byId(refused.json);
    assert.deepEqual(Object.keys(answers).sort(), ["1", "2", "3", "n", "p"]);
    for (const id of [1, 2, 3]) {
      assert.equal(refusalOf(answers[id]).reason, "rate");
      assert.match(text(answers[id]), REFUSED);
    }
    assert.deepEqual([answers.p.result, answers.n.error.code], [{}, -32601], "the upstream's own answers");
    assert.deepEqual(upstream.calls(), []);
    assert.deepEqual([upstream.messages("ping").length, upstream.messages("notifications/x").length], [1, 1]);
    const last = await atOnce(3, (id) => call(sluice, who, "echo", { text: "x" }, id));
    assert.equal(last.filter(ran).length, 2, "nothing was charged");
  });

  test("of nothing but refused calls doesn't reach the upstream", async () => {
    const { sluice, upstream } = both;
    const who = caller(BATCHES);
    await empty(sluice, who);
    upstream.forget();
    const { status, json } = await post(sluice, echoes(2), who);
    assert.deepEqual([status, json.map((one) => refusalOf(one).reason)], [200, ["rate", "rate"]]);
    assert.deepEqual(upstream.seen, []);
  });

  test("dearer than the bucket is told that it can never run", async () => {
    const { sluice, upstream } = both;
    const { json } = await post(sluice, echoes(31), caller(BATCHES));
    for (const one of json) {
      assert.deepEqual(refusalOf(one), { reason: "capacity", allowance: "caller", tool: "echo" });
      assert.equal(text(one), "This batch costs 31 tokens and the bucket holds 30. It can never run.");
    }
    assert.deepEqual(upstream.calls(), []);
  });

  test("with arguments that don't fit: that call is told so and is free, and the others run", async () => {
    const { sluice, upstream } = both;
    const who = caller(BATCHES);
    const { json } = await post(sluice, [message("echo", { text: "a" }, 1), message("echo", { text: 7 }, 2), message("echo", { text: "c" }, 3)], who);
    const answers = byId(json);
    assert.deepEqual([text(answers[1]), answers[2].result.isError, text(answers[3])], ["a", true, "c"]);
    assert.match(text(answers[2]), /text/);
    assert.equal(refusalOf(answers[2]), undefined);
    assert.deepEqual(upstream.calls().map(({ id }) => id), [1, 3]);
    assert.equal(left(await call(sluice, who)), 27);
  });

  test("whose answer is a stream is answered whole", async () => {
    const { sluice, upstream } = both;
    upstream.respond(onCall((seen, response) => {
      stream(response);
      for (const { id } of seen.messages) response.write(event(result(id, `answer ${id}`)));
      response.end();
    }));
    const answer = await post(sluice, echoes(2), caller(BATCHES));
    const answers = answer.json ?? messages(answer.text).flat();
    assert.deepEqual(answers.map(({ id }) => id).sort(), [1, 2]);
    for (const one of answers) assert.equal(text(one), `answer ${one.id}`);
  });
});

describe("with MCP_REFUSAL=http", () => {
  const both = gateway({ MCP_REFUSAL: "http" });

  test("a refused call is a 429 and isn't sent", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    await empty(sluice, who);
    const refused = await call(sluice, who, "echo", { text: "x" }, "an id");
    const { error } = refused;
    assert.deepEqual([refused.status, refused.json.id, error.code, error.data.reason], [429, "an id", -31004, "rate"]);
    assert.equal(refused.headers.get("retry-after"), String(Math.ceil(error.data.retryAfterMs / 1_000)));
    assert.match(error.message, REFUSED);
    assert.equal(upstream.calls().length, 30);
    assert.equal((await ask(sluice, who, "ping")).status, 200);
  });

  test("a refused batch is a 429, and nothing of it is sent", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    await empty(sluice, who);
    upstream.forget();
    const refused = await post(sluice, [message(), request("ping", undefined, "p")], who);
    assert.deepEqual([refused.status, refused.json.map(({ id, error }) => [id, error.code])], [429, [[1, -31004], ["p", -31004]]]);
    assert.deepEqual(upstream.seen, []);
  });
});

describe("other limits hold for the upstream's tools:", () => {
  test("a cost, a quota, and one's own bucket of a tool", async () => {
    const tools = { echo: { cost: 5 }, render: { quota: "2/day" }, find: { rate: 0.001, burst: 1 } };
    await using both = await pair({ MCP_TOOLS: tools });
    const { sluice, upstream } = both;
    upstream.tools = [ECHO, anyTool("render"), anyTool("find")];
    const who = caller();
    assert.equal(left(await call(sluice, who)), 25);
    const renders = [];
    for (let id = 0; id < 3; id += 1) renders.push(await call(sluice, who, "render", {}, id));
    assert.deepEqual(renders.map(ran), [true, true, false]);
    assert.match(text(renders[2]), /^Quota of 2 calls of render a day used up\. Wait \d+ seconds? before the next tool call\.$/);
    const finds = await atOnce(3, (id) => call(sluice, who, "find", {}, id));
    assert.equal(finds.filter(ran).length, 1);
    assert.deepEqual(["render", "find"].map((name) => upstream.calls().filter(({ params }) => params.name === name).length), [2, 1]);
  });

  test("MCP_MAX_IN_FLIGHT, until the answer has ended, also a stream", async () => {
    await using both = await pair({ MCP_MAX_IN_FLIGHT: "1" });
    const { sluice, upstream } = both;
    const end = gate();
    upstream.respond(onCall(async (seen, response) => {
      stream(response);
      response.write(": begun\n\n");
      await end.promise;
      response.end(event(result(seen.messages[0].id, "late")));
    }));
    const who = caller();
    const first = call(sluice, who);
    await until(() => upstream.calls().length === 1, "the call is under way");
    const busy = await call(sluice, who, "echo", { text: "x" }, 2);
    const { retryAfterMs, ...rest } = refusalOf(busy);
    assert.deepEqual(rest, { reason: "busy", allowance: "caller", tool: "echo" });
    assert.equal(retryAfterMs > 0, true);
    assert.match(text(busy), /Wait \d+ seconds? before the next tool call\.$/);
    assert.equal((await ask(sluice, who, "ping")).status, 200);
    assert.equal(upstream.calls().length, 1);
    end.resolve();
    assert.equal(text({ result: messages((await first).text)[0].result }), "late");
    await until(async () => refusalOf(await call(sluice, who)) === undefined, "the slot is free again");
  });

  test("MCP_MAX_IN_FLIGHT, until a refusal of the server's in plain text has ended", async () => {
    await using both = await pair({ MCP_MAX_IN_FLIGHT: "1" });
    const { sluice, upstream } = both;
    const end = gate();
    upstream.respond(onCall(async (_, response) => {
      response.writeHead(404, { "content-type": "text/plain" });
      response.write("no ");
      await end.promise;
      response.end("such thing");
    }));
    const who = caller();
    const init = { method: "POST", address: who.address, body: JSON.stringify(message()), headers: { ...JSON_TYPE, ...who.headers } };
    const response = await sluice.fetch("/mcp", init);
    assert.equal(refusalOf(await call(sluice, who))?.reason, "busy");
    end.resolve();
    assert.deepEqual([response.status, await response.text()], [404, "no such thing"]);
    upstream.respond(undefined);
    await until(async () => refusalOf(await call(sluice, who)) === undefined, "the slot is free again");
  });

  test("max_in_flight of one tool", async () => {
    await using both = await pair({ MCP_TOOLS: { render: { max_in_flight: 1, poll_seconds: 7 } } });
    const { sluice, upstream } = both;
    upstream.tools = [ECHO, anyTool("render")];
    const end = hold(upstream, ({ name }) => name === "render");
    const who = caller();
    const first = call(sluice, who, "render", {});
    await until(() => upstream.calls().length === 1, "render is under way");
    const busy = await call(sluice, who, "render", {}, 2);
    assert.deepEqual(refusalOf(busy), { reason: "busy", allowance: "tool", tool: "render", retryAfterMs: 7_000 });
    came(await call(sluice, who), "hello");
    end();
    assert.ok(ran(await first));
  });

  test("the object isn't held while the upstream works", async () => {
    await using both = await pair();
    const { sluice, upstream } = both;
    const end = hold(upstream, ({ arguments: { text } }) => text === "wait");
    const who = caller();
    const first = call(sluice, who, "echo", { text: "wait" });
    await until(() => upstream.calls().length === 1, "the first is under way");
    for (let id = 2; id < 5; id += 1) came(await call(sluice, who, "echo", { text: "quick" }, id), "quick");
    end();
    came(await first, "wait");
  });

  test("MCP_MAX_IN_FLIGHT_SESSION caps the calls of one session, beside the caller's limit", async () => {
    await using both = await pair({ MCP_MAX_IN_FLIGHT_SESSION: "1" });
    const { sluice, upstream } = both;
    const end = hold(upstream, ({ arguments: { text } }) => text === "wait");
    const who = caller();
    const within = (id) => ({ ...who, headers: { ...who.headers, "mcp-session-id": id } });
    const first = call(sluice, within("a"), "echo", { text: "wait" });
    await until(() => upstream.calls().length === 1, "the first is under way");
    const busy = await call(sluice, within("a"), "echo", { text: "x" }, 2);
    const { retryAfterMs, ...rest } = refusalOf(busy);
    assert.deepEqual(rest, { reason: "busy", allowance: "session", tool: "echo" });
    assert.ok(retryAfterMs > 0);
    assert.match(text(busy), /Wait \d+ seconds? before the next tool call\.$/);
    came(await call(sluice, within("b")), "hello");
    came(await call(sluice, who), "hello");
    end();
    const answer = await first;
    came(answer, "wait");
    await until(async () => ran(await call(sluice, within("a"))), "the session's slot is free again");
    const later = left(await call(sluice, within("a")));
    assert.ok(later < 27, "a session is no bucket of its own");
  });

  test("a session's cap holds for free tools too, and what the caller's own object gave comes back at once", async () => {
    await using both = await pair({ MCP_MAX_IN_FLIGHT_SESSION: "1", MCP_MAX_IN_FLIGHT: "2", MCP_TOOLS: { free: { cost: 0 } } });
    const { sluice, upstream } = both;
    upstream.tools = [anyTool("free"), anyTool("paid")];
    const end = hold(upstream);
    const who = caller({ "mcp-session-id": "s" });
    const first = call(sluice, who, "free", {});
    await until(() => upstream.calls().length === 1, "the first is under way");
    for (const name of ["free", "paid", "free", "paid"]) {
      assert.equal(refusalOf(await call(sluice, who, name, {}))?.allowance, "session", name);
    }
    end();
    came(await first, "{}");
    upstream.respond(undefined);
    await until(async () => ran(await call(sluice, who, "free", {})), "the session's slot is free again");
    assert.equal(left(await call(sluice, who, "paid", {})), 29, "two refused calls went back");
  });

  test("min_gap_ms keeps a tool's calls apart, as the upstream sees them", async () => {
    const gap = 400;
    await using both = await pair({ MCP_MAX_WAIT_MS: "60000", MCP_TOOLS: { echo: { min_gap_ms: gap } } });
    const { sluice, upstream } = both;
    await call(sluice, caller(), "echo", { text: "that the list is known" });
    const arrivals = [];
    upstream.respond(onCall((_, __, next) => {
      arrivals.push(performance.now());
      next();
    }));
    const answers = await atOnce(4, (id) => call(sluice, caller(), "echo", { text: "x" }, id));
    assert.ok(answers.every(ran), "held back, not refused");
    arrivals.sort((a, b) => a - b);
    // The turns are so far apart; what is sent may be under way a little longer or less.
    assert.ok(arrivals.at(-1) - arrivals[0] > 3 * gap - gap / 2, `${arrivals.map((at) => Math.round(at - arrivals[0]))}`);
  });

  test("a call that would be held back too long is refused and isn't sent", async () => {
    await using both = await pair({ MCP_MAX_WAIT_MS: "100", MCP_TOOLS: { echo: { min_gap_ms: 60_000 } } });
    const { sluice, upstream } = both;
    came(await call(sluice, caller()), "hello");
    const refused = await call(sluice, caller());
    const { reason, allowance } = refusalOf(refused);
    assert.deepEqual([reason, allowance, upstream.calls().length], ["rate", "spacing", 1]);
  });
});

describe("what is counted", () => {
  const both = gateway();

  test("calls of the upstream by tool and outcome, in JSON and in streams", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [ECHO, anyTool("render")];
    const who = caller();
    await call(sluice, who);
    await call(sluice, who);
    upstream.respond(onCall((seen, response) => json(response, result(seen.messages[0].id, "bad", { isError: true }))));
    await call(sluice, who, "render", {});
    upstream.respond(onCall((seen, response) => {
      stream(response);
      response.end(event(result(seen.messages[0].id, "bad", { isError: true })));
    }));
    await call(sluice, who, "render", {});
    await call(sluice, who, "echo", {});
    await empty(sluice, who);
    const stats = async () => (await sluice.fetch("/stats")).json();
    const expected = { calls: 2, errors: 2 };
    // What a stream said is counted when it has ended, which is after the client has read it.
    await until(async () => JSON.stringify((await stats()).tools.render) === JSON.stringify(expected), "both renders are counted");
    const { total, tools } = await stats();
    assert.deepEqual([total, tools.echo.calls], [30, 28], "what was refused isn't in it");
    const counted = await metrics(sluice);
    assert.equal(counted['mcp_tool_calls_total{tool="echo",outcome="ok"}'], 2);
    assert.equal(counted['mcp_tool_calls_total{tool="render",outcome="error"}'], 2);
    assert.equal(counted['mcp_invalid_calls_total{tool="echo"}'], 1);
    const limited = Object.entries(counted).filter(([name]) => name.startsWith('mcp_rate_limited_total{tool="echo",reason="rate"'));
    assert.equal(limited.reduce((sum, [, value]) => sum + value, 0), 4);
  });
});

describe("credentials:", () => {
  const SECRET = "0123456789abcdef0123456789abcdef";
  const bearer = (token) => ({ authorization: `Bearer ${token}` });
  const token = (sub = "alice") => hmac(SECRET, { sub, exp: fromNow(600) });
  const verified = { MCP_CALLER: "token", MCP_JWT_SECRET: SECRET };

  /** What the upstream got as Authorization from a list, a call, a GET and a DELETE. */
  async function got({ sluice, upstream }, headers) {
    upstream.forget();
    await ask(sluice, { headers }, "tools/list");
    assert.ok(ran(await call(sluice, { headers })));
    await (await get(sluice, { headers })).body?.cancel();
    await sluice.fetch("/mcp", { method: "DELETE", headers });
    assert.equal(upstream.callRequests().length, 1);
    assert.ok(["GET", "DELETE"].every((method) => upstream.seen.some((seen) => seen.method === method)));
    return [...new Set(upstream.seen.map((seen) => seen.headers.authorization))];
  }

  test("without verification they are forwarded", async () => {
    await using both = await pair();
    assert.deepEqual(await got(both, bearer("opaque")), ["Bearer opaque"]);
    assert.deepEqual(await got(both, {}), [undefined]);
  });

  test("with verification they are for Sluice alone, and every request needs one", async () => {
    await using both = await pair(verified);
    const { sluice, upstream } = both;
    assert.deepEqual(await got(both, bearer(token())), [undefined]);
    upstream.forget();
    for (const headers of [{}, bearer("opaque"), bearer(hmac(`${SECRET}x`, { sub: "alice", exp: fromNow(600) }))]) {
      for (const body of [request("initialize", CLIENT), request("tools/list"), message(), { jsonrpc: "2.0", method: "notifications/x" }]) {
        const answer = await post(sluice, body, { headers });
        assert.equal(answer.status, 401, body.method);
        assert.match(answer.headers.get("www-authenticate"), /^Bearer/);
      }
      for (const method of ["GET", "DELETE"]) assert.equal((await sluice.fetch("/mcp", { method, headers })).status, 401, method);
    }
    assert.deepEqual(upstream.seen, []);
    await sluice.fetch("/mcp", { method: "OPTIONS", headers: { origin: "http://localhost:1", "access-control-request-method": "POST" } });
    assert.equal(upstream.seen.length, 1, "a browser's question can't bring a token");
  });

  test("MCP_UPSTREAM_AUTH=none sends none", async () => {
    await using both = await pair({ MCP_UPSTREAM_AUTH: "none" });
    assert.deepEqual(await got(both, bearer("opaque")), [undefined]);
  });

  test("MCP_UPSTREAM_AUTH=token sends Sluice's own in place of the client's", async () => {
    const own = { MCP_UPSTREAM_AUTH: "token", MCP_UPSTREAM_TOKEN: "of-sluice" };
    await using both = await pair(own);
    assert.deepEqual(await got(both, bearer("opaque")), ["Bearer of-sluice"]);
    assert.deepEqual(await got(both, {}), ["Bearer of-sluice"]);
    await using second = await pair({ ...own, ...verified });
    assert.deepEqual(await got(second, bearer(token())), ["Bearer of-sluice"]);
  });

  test("cookies come back only to those whose own went on, and the documents need no secret of Sluice's", async () => {
    for (const [vars, cookie] of [[{}, "a=b"], [{ MCP_UPSTREAM_AUTH: "none" }, null], [{ MCP_UPSTREAM_AUTH: "token", MCP_UPSTREAM_TOKEN: "t" }, null]]) {
      await using both = await pair(vars);
      const { sluice, upstream } = both;
      upstream.respond((seen, response) => json(response, result(1, "x"), 200, { "set-cookie": "a=b" }));
      assert.equal((await call(sluice, caller())).headers.get("set-cookie"), cookie);
      assert.equal((await ask(sluice, caller(), "ping")).headers.get("set-cookie"), cookie);
      upstream.forget();
      await sluice.fetch("/.well-known/oauth-authorization-server");
      assert.equal(upstream.seen[0].headers.authorization, undefined);
    }
  });

  test("a caller is its token's subject, whatever its address", async () => {
    await using both = await pair(verified);
    const { sluice } = both;
    assert.equal(left(await call(sluice, { address: "192.0.2.1", headers: bearer(token("bob")) })), 29);
    assert.equal(left(await call(sluice, { address: "192.0.2.2", headers: bearer(token("bob")) })), 28);
    assert.equal(left(await call(sluice, { address: "192.0.2.1", headers: bearer(token("eve")) })), 29);
  });

  test("the document of the resource is Sluice's own where it names authorization servers", async () => {
    await using both = await pair({ ...verified, MCP_AUTHORIZATION_SERVERS: "https://issuer.example" });
    const { sluice, upstream } = both;
    const document = await (await sluice.fetch("/.well-known/oauth-protected-resource/mcp")).json();
    assert.deepEqual(document.authorization_servers, ["https://issuer.example"]);
    assert.deepEqual(upstream.seen, []);
  });
});

describe("a configuration that can't be meant names its variable:", () => {
  for (const [what, vars, variable] of [
    ["an upstream that is no URL", { MCP_UPSTREAM: "nowhere" }, "MCP_UPSTREAM"],
    ["an upstream that isn't reached by HTTP", { MCP_UPSTREAM: "ftp://127.0.0.1/mcp" }, "MCP_UPSTREAM"],
    ["credentials of a kind that isn't known", { MCP_UPSTREAM_AUTH: "maybe" }, "MCP_UPSTREAM_AUTH"],
    ["a token that isn't there", { MCP_UPSTREAM_AUTH: "token" }, "MCP_UPSTREAM_TOKEN"],
    ["a timeout that is no number", { MCP_UPSTREAM_TIMEOUT_MS: "soon" }, "MCP_UPSTREAM_TIMEOUT_MS"],
    ["a session's cap that is no number", { MCP_MAX_IN_FLIGHT_SESSION: "few" }, "MCP_MAX_IN_FLIGHT_SESSION"],
    ["a session's cap as the only limit", { MCP_MAX_IN_FLIGHT_SESSION: "2", MCP_RATE_LIMIT: "0" }, "MCP_MAX_IN_FLIGHT_SESSION"],
  ]) {
    test(what, async () => {
      await using sluice = await through({ url: "http://127.0.0.1:9/mcp" }, vars);
      const answer = await sluice.mcp(request("ping"));
      assert.deepEqual([answer.status, answer.error?.code], [500, -32603]);
      assert.match(answer.error.message, new RegExp(variable));
      const health = await sluice.fetch("/healthz");
      assert.equal(health.status, 503);
      assert.match(await health.text(), new RegExp(variable));
    });
  }

  test("but a session's cap beside slots or a quota is meant", async () => {
    for (const beside of [{ MCP_MAX_IN_FLIGHT: "5" }, { MCP_QUOTA: "10/day" }]) {
      await using both = await pair({ MCP_MAX_IN_FLIGHT_SESSION: "2", MCP_RATE_LIMIT: "0", ...beside });
      came(await call(both.sluice, caller()), "hello");
    }
  });
});

describe("a service binding named UPSTREAM", () => {
  const others = [{ name: "behind", main: "test/e2e/upstreams/bound.mjs", compatibility_date: "2026-01-01" }];
  const options = { config: { services: [{ binding: "UPSTREAM", service: "behind" }] }, others };

  test("is an upstream by itself, metered like any", async () => {
    await using sluice = await startHarness({ ...options, vars: SLOW });
    const who = { address: "203.0.113.9" };
    for (let n = 1; n <= 30; n += 1) {
      const { calls, forwarded } = JSON.parse(text(await call(sluice, who, "seen", {}, n)));
      assert.deepEqual([calls, forwarded], [n, "203.0.113.9"]);
    }
    assert.equal(refusalOf(await call(sluice, who, "seen", {})).reason, "rate");
    const bad = await call(sluice, { address: "203.0.113.10" }, "seen", { text: 7 });
    assert.equal(bad.result.isError, true);
    assert.equal(JSON.parse(text(await call(sluice, { address: "203.0.113.10" }, "seen", {}))).calls, 31);
    assert.match((await (await sluice.fetch("/.well-known/any")).json()).url, /\/\.well-known\/any$/);
  });

  test("is asked by the URL that MCP_UPSTREAM says", async () => {
    await using sluice = await startHarness({ ...options, vars: { ...SLOW, MCP_UPSTREAM: "https://behind.example/deep/mcp" } });
    const { url } = JSON.parse(text(await call(sluice, caller(), "seen", {})));
    assert.equal(url, "https://behind.example/deep/mcp");
  });
});

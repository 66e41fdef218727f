// What a server behind can do wrong, and what is told then: a clear answer each time, no hang, and nothing charged that was never sent.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { atOnce, message, metrics, pass, ran, until } from "./calls.mjs";
import {
  ask,
  call,
  caller,
  came,
  events,
  failedBehind,
  gate,
  gateway,
  grown,
  hold,
  left,
  messages,
  pair,
  paused,
  text,
  through,
} from "./upstreams/gateway.mjs";
import { freePort } from "./upstreams/process.mjs";
import { anyTool, event, json, onCall, result, start as scripted, stream } from "./upstreams/scripted.mjs";

const JSON_TYPE = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const MB = 1_048_576;

/** A request whose answer isn't read yet. */
const open = (sluice, who, body = message()) =>
  sluice.fetch("/mcp", { method: "POST", address: who.address, headers: { ...JSON_TYPE, ...who.headers }, body: JSON.stringify(body) });

/** The error that another message than a call gets when there is no answer behind. */
function badGateway(answer, status, id = 1) {
  assert.equal(answer.status, status, answer.text);
  assert.deepEqual([answer.json?.jsonrpc, answer.json?.id, answer.error?.code], ["2.0", id, -32603], answer.text);
  assert.match(answer.error.message, /^The server behind/);
}

describe("a server behind that isn't there", () => {
  let sluice;
  before(async () => (sluice = await through({ url: `http://127.0.0.1:${await freePort()}/mcp` })));
  after(() => sluice?.close());

  test("is told to the model, and what may have been received stays charged", async () => {
    const who = caller();
    const answer = await call(sluice, who);
    failedBehind(answer);
    assert.equal(left(answer), 29);
    assert.equal(left(await call(sluice, who)), 28);
  });

  test("is told to the client for all else", async () => {
    badGateway(await ask(sluice, caller(), "ping", undefined, "an id"), 502, "an id");
    badGateway(await ask(sluice, caller(), "tools/list"), 502);
    for (const method of ["GET", "DELETE"]) {
      const response = await sluice.fetch("/mcp", { method, headers: { accept: "text/event-stream" } });
      assert.equal(response.status, 502, method);
      await response.body?.cancel();
    }
    assert.equal((await sluice.fetch("/.well-known/oauth-protected-resource")).status, 502);
    assert.equal((await sluice.mcp({ jsonrpc: "2.0", method: "notifications/x" })).status, 502);
  });

  test("doesn't stop what Sluice tells by itself", async () => {
    for (const path of ["/healthz", "/limits", "/stats", "/metrics"]) assert.equal((await sluice.fetch(path)).status, 200, path);
  });
});

describe("a server behind that", () => {
  const both = gateway({ MCP_UPSTREAM_TIMEOUT_MS: "60000" });

  // What the call's answer is instead of one; the list was told before.
  const broken = {
    "resets the connection": (_, response) => response.destroy(),
    "resets it after the headers": (_, response) => {
      response.writeHead(200, { "content-type": "application/json", "content-length": "1000" });
      response.write("{", () => response.destroy());
    },
    "ends in the middle of its JSON": (_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify(result(1, "x")).slice(0, 40));
    },
    "resets in the middle of its JSON": (_, response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.write(JSON.stringify(result(1, "x")).slice(0, 40), () => setImmediate(() => response.destroy()));
    },
    "answers in HTML": (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>Hello</h1>"),
    "answers 500 in HTML": (_, response) => response.writeHead(500, { "content-type": "text/html" }).end("<h1>Sorry</h1>"),
    "answers 502 in plain text": (_, response) => response.writeHead(502, { "content-type": "text/plain" }).end("bad gateway"),
    "answers with HTML that is said to be JSON": (_, response) => json(response, "<h1>Hello</h1>"),
    "answers with nothing": (_, response) => json(response, ""),
    "answers with JSON that is no answer": (_, response) => json(response, { detail: "ok" }),
    "answers with a status that there isn't": (_, response) => json(response, result(1, "x"), 700),
    "answers with no content": (_, response) => response.writeHead(204, { "content-type": "application/json" }).end(),
    "answers with no stream": (_, response) => response.writeHead(204, { "content-type": "text/event-stream" }).end(),
    "answers another request": (_, response) => json(response, result(2, "x")),
  };
  for (const [what, fault] of Object.entries(broken)) {
    test(`${what} is told to the model, and the call stays charged`, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      came(await call(sluice, who), "hello");
      upstream.respond(onCall(fault));
      const answer = await call(sluice, who, "echo", { text: "x" });
      failedBehind(answer);
      assert.equal(answer.json.id, 1);
      assert.ok(!answer.text.includes("<h1>"), "nothing of it is passed on");
      assert.equal(upstream.calls().length, 2, "what may have run isn't tried again");
      upstream.respond(undefined);
      assert.equal(left(await call(sluice, who)), 27);
    });
  }

  test("resets or ends without an answer is a 502 to all but calls", async () => {
    const { sluice, upstream } = both;
    upstream.respond((_, response) => response.destroy());
    badGateway(await ask(sluice, caller(), "ping", undefined, 7), 502, 7);
    badGateway(await ask(sluice, caller(), "initialize", {}, "i"), 502, "i");
  });

  test("has odd statuses for all else doesn't stop anything", async () => {
    const { sluice, upstream } = both;
    for (const [status, told] of [[700, 502], [999, 502], [204, 204], [205, 205], [304, 304]]) {
      upstream.respond((_, response) => response.writeHead(status, { "content-type": "application/json" }).end());
      for (const method of ["ping", "tools/list"]) assert.equal((await ask(sluice, caller(), method)).status, told, `${status}`);
    }
    upstream.respond(undefined);
    came(await call(sluice, caller()), "hello");
  });

  test("breaks a stream off is told to all but calls too", async () => {
    const { sluice, upstream } = both;
    upstream.respond((_, response) => {
      stream(response);
      response.write(event({ jsonrpc: "2.0", method: "notifications/x" }), () => setTimeout(() => response.destroy(), 50));
    });
    const answer = await ask(sluice, caller(), "resources/read", { uri: "a:b" }, 7);
    const [, last] = messages(answer.text);
    assert.deepEqual([last.id, last.error.code], [7, -32603], answer.text);
  });

  test("fails is counted as an error of its tool", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [anyTool("flaky")];
    upstream.respond(onCall((_, response) => response.destroy()));
    failedBehind(await call(sluice, caller(), "flaky", {}));
    const name = 'mcp_tool_calls_total{tool="flaky",outcome="error"}';
    await until(async () => (await metrics(sluice))[name] === 1, name);
  });

  test("sends half an event: only whole ones arrive, and one that says so", async () => {
    const { sluice, upstream } = both;
    const progress = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: 1, progress: 1 } };
    for (const end of [(response) => response.end(), (response) => response.destroy()]) {
      upstream.respond(onCall((_, response) => {
        stream(response);
        response.write(event(progress));
        // On the wire before the end comes.
        response.write(event(result(1, "never whole")).slice(0, -30), () => setTimeout(() => end(response), 50));
      }));
      const answer = await call(sluice, caller());
      assert.equal(answer.status, 200);
      const got = messages(answer.text);
      assert.equal(got.length, 2, answer.text);
      assert.deepEqual(got[0], progress);
      assert.equal(got[1].id, 1);
      failedBehind({ ...answer, result: got[1].result });
      assert.ok(answer.text.endsWith("\n\n"));
    }
  });

  test("ends its stream without an answer: the model is told", async () => {
    const { sluice, upstream } = both;
    const note = event({ jsonrpc: "2.0", method: "notifications/x" });
    for (const written of ["", ": comment\n\n", note, note.slice(0, -1)]) {
      upstream.respond(onCall((_, response) => {
        stream(response);
        response.end(written);
      }));
      const answer = await call(sluice, caller());
      failedBehind({ ...answer, result: messages(answer.text).at(-1).result });
    }
  });

  test("ends a stream whose events have ids: that is the client's to take up again", async () => {
    const { sluice, upstream } = both;
    const whole = event({ jsonrpc: "2.0", method: "notifications/x" }, "e-1");
    upstream.respond(onCall((_, response) => {
      stream(response);
      response.write(whole);
      response.write(event(result(1, "later"), "e-2").slice(0, -30), () => setTimeout(() => response.destroy(), 50));
    }));
    const response = await open(sluice, caller());
    let got = "";
    try {
      for await (const chunk of response.body) got += new TextDecoder().decode(chunk);
    } catch {
      // It may end as it did behind.
    }
    assert.deepEqual(messages(got), messages(whole));
  });

  test("ends a stream within the first event that has an id, or takes the id back: the model is told", async () => {
    const { sluice, upstream } = both;
    const note = { jsonrpc: "2.0", method: "notifications/x" };
    for (const written of ["id: 7\ndata: {", `${event(note, "7")}${event(note, "")}`]) {
      upstream.respond(onCall((_, response) => {
        stream(response);
        response.write(written, () => setTimeout(() => response.destroy(), 50));
      }));
      const answer = await call(sluice, caller());
      failedBehind({ ...answer, result: messages(answer.text).at(-1).result });
    }
  });

  test("answers with an error that names no request is passed on", async () => {
    const { sluice, upstream } = both;
    const error = '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}}';
    upstream.respond(onCall((_, response) => json(response, error)));
    const answer = await call(sluice, caller());
    assert.deepEqual([answer.status, answer.text], [200, error]);
  });

  test("answers after a stream's lines of any kind", async () => {
    const { sluice, upstream } = both;
    const data = JSON.stringify(result(1, "split")).replace(',"id"', ',\ndata: "id"');
    for (const written of [
      `data: ${JSON.stringify(result(1, "split"))}\r\n\r\n`,
      `\ufeffdata:${data}\n\n`,
      `id: 1\nretry: 100\ndata:\n\n: x\n\nevent: message\ndata: ${data}\n\n`,
      `data: ${JSON.stringify(result(1, "split"))}\r\r`,
    ]) {
      upstream.respond(onCall(async (_, response) => {
        stream(response);
        // In small pieces: no piece of the wire is an event.
        for (const part of written.match(/[^]{1,9}/gu)) if (!response.write(part)) await once(response, "drain");
        response.end();
      }));
      const answer = await call(sluice, caller());
      assert.equal(answer.text.replace(/^\ufeff/, ""), written.replace(/^\ufeff/, ""));
    }
  });
});

describe("a server behind that is slow", () => {
  const both = gateway({ MCP_UPSTREAM_TIMEOUT_MS: "700" });

  test("to begin is given up and told, and the call stays charged", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    upstream.respond(() => {});
    const started = performance.now();
    const answer = await call(sluice, who);
    failedBehind(answer);
    assert.ok(performance.now() - started >= 690, "not before its time");
    assert.equal(left(answer), 28);
    badGateway(await ask(sluice, caller(), "ping", undefined, "p"), 504, "p");
    const response = await sluice.fetch("/mcp", { headers: { accept: "text/event-stream" } });
    assert.equal(response.status, 504);
    assert.equal(upstream.calls().length, 2);
    await until(() => upstream.seen.slice(-3).every(({ gone }) => gone), "what was given up is given up behind too");
  });

  test("once it has begun isn't given up", async () => {
    const { sluice, upstream } = both;
    const late = (seen) => result(seen.messages[0].id, "late");
    for (const slow of [
      async (seen, response) => {
        stream(response);
        await pass(1_500);
        response.end(event(late(seen)));
      },
      async (seen, response) => {
        response.writeHead(200, { "content-type": "application/json" });
        // Each part is waited for as long again.
        for (let part = 0; part < 5; part += 1) {
          response.write(" ");
          await pass(300);
        }
        response.end(JSON.stringify(late(seen)));
      },
    ]) {
      upstream.respond(onCall(slow));
      const answer = await call(sluice, caller());
      assert.equal(text(answer.json ?? messages(answer.text)[0]), "late");
    }
  });
});

describe("a redirect", () => {
  const both = gateway();
  let other;
  before(async () => (other = await scripted()));
  after(() => other?.close());

  for (const status of [307, 308]) {
    test(`${status} to the same origin is followed with what was sent`, async () => {
      const { sluice, upstream } = both;
      for (const location of ["/moved?a=1", `${upstream.origin}/moved`]) {
        upstream.respond((seen, response, next) => (seen.url === "/mcp" ? response.writeHead(status, { location }).end() : next()));
        upstream.forget();
        const who = caller();
        came(await call(sluice, who), "hello");
        assert.equal((await ask(sluice, who, "ping")).status, 200);
        const [first, second] = upstream.callRequests();
        assert.deepEqual([first.url, second.url, second.body, second.headers.authorization], ["/mcp", location.replace(upstream.origin, ""), first.body, who.headers.authorization]);
      }
    });
  }

  for (const status of [301, 302, 303, 307, 308]) {
    test(`${status} to another host isn't followed`, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      came(await call(sluice, who), "hello");
      for (const location of [other.url, `//127.0.0.1:${other.port}/mcp`, `http://localhost:${upstream.port}/mcp`]) {
        upstream.respond((_, response) => response.writeHead(status, { location }).end());
        failedBehind(await call(sluice, who));
        badGateway(await ask(sluice, who, "ping"), 502);
      }
      assert.deepEqual(other.seen, []);
      assert.equal(upstream.seen.filter(({ headers }) => headers.host.startsWith("localhost")).length, 0);
    });
  }

  test("round and round comes to an end", async () => {
    const { sluice, upstream } = both;
    upstream.respond((_, response) => response.writeHead(307, { location: "/mcp" }).end());
    failedBehind(await call(sluice, caller()));
    assert.ok(upstream.calls().length <= 25, `${upstream.calls().length}`);
  });
});

describe("a pause that the server behind asks for", () => {
  const both = gateway();
  const busy = (status, retryAfter) => (_, response) =>
    json(response, { error: "busy" }, status, retryAfter === undefined ? {} : { "retry-after": String(retryAfter) });
  const date = (ms) => new Date(Date.now() + ms).toUTCString();

  for (const status of [429, 503]) {
    test(`by ${status} closes it for that credential: calls are refused with the wait, not sent and not charged`, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      came(await call(sluice, who), "hello");
      upstream.respond(onCall(busy(status, 1_000)));
      const met = await call(sluice, who);
      const wait = paused(met);
      assert.ok(wait > 500_000 && wait <= 1_000_000, `${wait}`);
      upstream.respond(undefined);
      for (let id = 0; id < 3; id += 1) assert.ok(paused(await call(sluice, who, "echo", { text: "x" }, id)) <= wait);
      assert.equal(upstream.calls().length, 2, "the one before, and the one that met it");
      // Another caller with the same credential too; one with another not.
      paused(await call(sluice, { ...who, address: caller().address }));
      came(await call(sluice, { ...caller(), address: who.address }), "hello");
      assert.equal((await ask(sluice, who, "ping")).status, 200, "what isn't a call passes");
    });
  }

  test("gives back what was charged", async () => {
    const { sluice, upstream } = both;
    for (const status of [429, 503]) {
      const who = caller();
      upstream.respond(onCall(busy(status, 1_000)));
      paused(await call(sluice, who));
      paused(await call(sluice, who));
      upstream.respond(undefined);
      assert.equal(left(await call(sluice, { ...caller(), address: who.address })), 29);
    }
  });

  for (const [what, retryAfter, least, most] of [
    ["without a time is 5 seconds long", undefined, 1, 5_000],
    ["of no time that can be read is 5 seconds long", "soon", 1, 5_000],
    ["of more than an hour is an hour long", 1_000_000, 3_000_000, 3_600_000],
    ["until a date more than an hour away is an hour long", date(86_400_000), 3_000_000, 3_600_000],
    ["until a date lasts until then", date(1_800_000), 1_200_000, 1_801_000],
  ]) {
    test(what, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      came(await call(sluice, who), "hello");
      upstream.respond(onCall(busy(429, retryAfter)));
      const wait = paused(await call(sluice, who));
      assert.ok(wait >= least && wait <= most, `${wait}`);
    });
  }

  test("is over after as long as was told", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    upstream.respond(onCall(busy(429, 3)));
    const wait = paused(await call(sluice, who));
    upstream.respond(undefined);
    await pass(wait);
    came(await call(sluice, who), "hello");
  });

  test("of a batch's calls is told to each of them, and given back", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    upstream.respond(onCall(busy(429, 1_000)));
    const { json: answers } = await sluice.mcp([message("echo", { text: "a" }, 1), message("echo", { text: "b" }, 2)], who);
    assert.deepEqual(answers.map(({ id }) => id).sort(), [1, 2]);
    for (const one of answers) paused({ status: 200, ...one });
    upstream.respond(undefined);
    assert.equal(left(await call(sluice, { ...caller(), address: who.address })), 28);
  });

  test("is told with the limits that hold, as every answer to a call", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    upstream.respond(onCall((_, response) => json(response, {}, 503, { "retry-after": "100" })));
    for (const args of [{ text: "x" }, { text: "x" }, { text: 7 }]) {
      const { headers } = await call(sluice, who, "echo", args);
      assert.equal(headers.get("ratelimit-policy"), '"tools-call";q=30;w=30000');
    }
  });

  test("doesn't let through what isn't valid, nor charge it", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    upstream.respond(onCall(busy(429, 1_000)));
    paused(await call(sluice, who));
    const bad = await call(sluice, who, "echo", { text: 7 });
    assert.equal(bad.result.isError, true);
    assert.equal(upstream.calls().length, 2);
  });

  test("is counted as a refusal", async () => {
    const { sluice, upstream } = both;
    upstream.tools = [anyTool("paused_tool")];
    upstream.respond(onCall(busy(429, 1_000)));
    paused(await call(sluice, caller(), "paused_tool", {}), "paused_tool");
    const counted = await metrics(sluice);
    const [found] = Object.entries(counted).filter(([name]) => name.startsWith('mcp_rate_limited_total{tool="paused_tool",reason="upstream",allowance="upstream"'));
    assert.equal(found?.[1], 1, JSON.stringify(counted));
  });
});

test("with MCP_REFUSAL=http a pause is a 503 with Retry-After", async () => {
  await using both = await pair({ MCP_REFUSAL: "http" });
  const { sluice, upstream } = both;
  const who = caller();
  upstream.respond(onCall((_, response) => json(response, {}, 429, { "retry-after": "1000" })));
  for (let id = 1; id <= 2; id += 1) {
    const { status, headers, json: answer, error } = await call(sluice, who, "echo", { text: "x" }, id);
    assert.deepEqual([status, answer.id, error.code, error.data.reason, error.data.allowance], [503, id, -31004, "upstream", "upstream"]);
    assert.equal(headers.get("retry-after"), String(Math.ceil(error.data.retryAfterMs / 1_000)));
    assert.match(error.message, /^The server behind asked for a pause\. Wait \d+ seconds before the next tool call\.$/);
  }
  assert.equal(upstream.calls().length, 1);
});

describe("a call is tried again", () => {
  const both = gateway({ MCP_MAX_WAIT_MS: "60000" });
  const HINTS = [
    anyTool("plain"),
    anyTool("reads", { annotations: { readOnlyHint: true } }),
    anyTool("repeats", { annotations: { idempotentHint: true } }),
    anyTool("writes", { annotations: { readOnlyHint: false, idempotentHint: false, destructiveHint: true } }),
  ];

  /** The first `count` calls are answered with this status, the others as usual. */
  const first = (upstream, count, status) => {
    let calls = 0;
    upstream.tools = HINTS;
    upstream.respond(onCall((_, response, next) => ((calls += 1) <= count ? json(response, {}, status, { "retry-after": "1" }) : next())));
  };

  for (const [status, name] of [[429, "plain"], [429, "writes"], [429, "reads"], [503, "reads"], [503, "repeats"]]) {
    test(`after ${status} when it is of ${name}, is charged once, and is sent as it was`, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      first(upstream, 1, status);
      const answer = await call(sluice, who, name, { a: 1 });
      came(answer, '{"a":1}');
      assert.equal(left(answer), 29);
      const [one, two] = upstream.callRequests();
      assert.equal(upstream.calls().length, 2);
      assert.equal(two.body, one.body);
      assert.equal(left(await call(sluice, who, name, {})), 28);
    });
  }

  for (const name of ["plain", "writes"]) {
    test(`not after 503 when it is of ${name}: it may have run`, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      first(upstream, 1, 503);
      paused(await call(sluice, who, name, {}), name);
      assert.equal(upstream.calls().length, 1);
    });
  }

  test("at most three times", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    first(upstream, Infinity, 429);
    paused(await call(sluice, who, "plain", {}), "plain");
    assert.equal(upstream.calls().length, 4);
  });

  for (const [name, attempts] of [["reads", 4], ["plain", 1], ["writes", 1]]) {
    test(`after a connection that was lost ${attempts} times in all when it is of ${name}`, async () => {
      const { sluice, upstream } = both;
      upstream.tools = HINTS;
      upstream.respond(onCall((_, response) => response.destroy()));
      failedBehind(await call(sluice, caller(), name, {}));
      assert.equal(upstream.calls().length, attempts);
    });
  }

  test("a pause after an attempt that may have run isn't told as if nothing was done, and gives nothing back", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    let calls = 0;
    upstream.tools = HINTS;
    upstream.respond(onCall((_, response) => ((calls += 1) === 1 ? response.destroy() : json(response, {}, 429, { "retry-after": "100" }))));
    const answer = await call(sluice, who, "reads", {});
    failedBehind(answer);
    assert.match(text(answer), /may have run/);
    assert.equal(calls, 2);
    assert.equal(left(answer), 29);
  });

  test("not while another was asked for a longer pause", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    const answered = gate();
    upstream.tools = HINTS;
    came(await call(sluice, who, "reads", {}), "{}");
    upstream.respond(onCall(async ({ messages: [{ params }] }, response) => {
      if (params.arguments.first) response.on("close", answered.resolve);
      else await answered.promise;
      json(response, {}, 503, { "retry-after": params.arguments.first ? "1" : "1000" });
    }));
    const calls = [call(sluice, who, "reads", {}), until(() => upstream.calls().length === 2, "the other is sent").then(() => call(sluice, who, "reads", { first: true }))];
    for (const answer of await Promise.all(calls)) assert.ok(paused(answer, "reads") > 500_000);
    assert.equal(upstream.calls().length, 3, "each once");
  });

  test("not later than MCP_MAX_WAIT_MS after it was first sent, however long that took", async () => {
    for (const [most, takes] of [[0, 0], [1_000, 1_500]]) {
      await using short = await pair({ MCP_MAX_WAIT_MS: String(most) });
      short.upstream.tools = HINTS;
      short.upstream.respond(onCall(async (_, response) => {
        await pass(takes);
        response.destroy();
      }));
      failedBehind(await call(short.sluice, caller(), "reads", {}));
      assert.equal(short.upstream.calls().length, 1, `${most}`);
    }
  });

  test("not when the wait is longer than MCP_MAX_WAIT_MS", async () => {
    await using short = await pair({ MCP_MAX_WAIT_MS: "2000" });
    short.upstream.respond(onCall((_, response) => json(response, {}, 429, { "retry-after": "20" })));
    const started = performance.now();
    const wait = paused(await call(short.sluice, caller()));
    assert.ok(wait <= 20_000);
    assert.ok(performance.now() - started < 20_000, "it wasn't waited for");
    assert.equal(short.upstream.calls().length, 1);
  });
});

describe("large answers pass with little memory:", () => {
  const both = gateway({ MCP_RATE_LIMIT_BURST: "100" });
  // What V8 collects late adds up to more than 100 MB, and to no more than that.
  const SIZE = 200 * MB;
  // Not all alike, so that a piece that is lost, doubled or out of place is noticed.
  const piece = Buffer.from(Array.from({ length: MB }, (_, at) => "abcdefghijklmnopqrstuvwxyz0123456789"[(at * 7 + (at >> 8)) % 36]).join(""));

  /** Writes so many bytes between two texts as fast as they are taken, and resolves to the digest of all. */
  async function pour(response, head, size, tail, { onPiece } = {}) {
    const hash = createHash("sha256");
    const write = async (bytes) => {
      hash.update(bytes);
      if (!response.write(bytes)) await once(response, "drain");
    };
    await write(Buffer.from(head));
    for (let at = 0; at < size; at += piece.length) {
      await write(piece);
      onPiece?.(at + piece.length);
    }
    hash.update(tail);
    response.end(tail);
    return hash.digest("hex");
  }

  async function digested(response) {
    const hash = createHash("sha256");
    let size = 0;
    for await (const chunk of response.body) {
      hash.update(chunk);
      size += chunk.length;
    }
    return { size, digest: hash.digest("hex") };
  }

  const [head, tail] = JSON.stringify(result(1, "|")).split("|");
  const kinds = {
    "200 MB of JSON": (response) => {
      response.writeHead(200, { "content-type": "application/json" });
      return pour(response, head, SIZE, tail);
    },
    "one event of 200 MB": (response) => {
      stream(response);
      return pour(response, `data: ${head}`, SIZE, `${tail}\n\n`);
    },
  };
  for (const [what, send] of Object.entries(kinds)) {
    test(what, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      came(await call(sluice, who), "hello");
      let sent;
      upstream.respond(onCall((_, response) => (sent = send(response))));
      const [got, grew] = await grown(async () => digested(await open(sluice, who)));
      assert.ok(got.size > SIZE);
      assert.equal(got.digest, await sent);
      if (grew !== undefined) assert.ok(grew < SIZE, `${Math.round(grew / MB)} MB more memory for ${SIZE / MB} MB`);
      upstream.respond(undefined);
      came(await call(sluice, who), "hello");
    });
  }

  for (const [what, method] of [["a call", "tools/call"], ["another message", "resources/read"]]) {
    test(`50 MB of events, each as it comes, as the answer to ${what}`, async () => {
      const { sluice, upstream } = both;
      const who = caller();
      came(await call(sluice, who), "hello");
      const note = Buffer.from(event({ jsonrpc: "2.0", method: "notifications/message", params: { data: "x".repeat(10_000) } }));
      const count = Math.ceil((50 * MB) / note.length);
      const begun = gate();
      upstream.respond(async (seen, response, next) => {
        if (seen.messages[0].method !== method) return next();
        stream(response);
        response.write(note);
        await begun.promise;
        for (let n = 1; n < count; n += 1) if (!response.write(note)) await once(response, "drain");
        response.end(event(result(seen.messages[0].id, "done")));
      });
      const body = method === "tools/call" ? message() : { jsonrpc: "2.0", id: 1, method, params: { uri: "a:b" } };
      const [seen, grew] = await grown(async () => {
        const read = events(await open(sluice, who, body));
        await read.next();
        begun.resolve();
        let last = "";
        let seen = 1;
        for (let one; (one = await read.next()) !== undefined; last = one) seen += 1;
        assert.match(last, /done/);
        return seen;
      });
      assert.equal(seen, count + 1);
      if (grew !== undefined) assert.ok(grew < 50 * MB, `${Math.round(grew / MB)} MB more memory for 50 MB`);
    });
  }

  test("what a client doesn't read isn't read behind", async () => {
    const { sluice, upstream } = both;
    const who = caller();
    came(await call(sluice, who), "hello");
    let taken = 0;
    upstream.respond(onCall(async (_, response) => {
      stream(response);
      await pour(response, `data: ${head}`, 2 * SIZE, `${tail}\n\n`, { onPiece: (so) => (taken = so) }).catch(() => {});
    }));
    const leave = new AbortController();
    const response = await sluice.fetch("/mcp", {
      ...{ method: "POST", address: who.address, signal: leave.signal, body: JSON.stringify(message()) },
      headers: { ...JSON_TYPE, ...who.headers },
    });
    const reader = response.body.getReader();
    await reader.read();
    // Still when nothing more was taken for a while.
    for (let before = -1; before !== taken; await pass(1_500)) before = taken;
    assert.ok(taken < SIZE, `${taken / MB} MB were taken of ${(2 * SIZE) / MB}`);
    leave.abort();
    await reader.cancel().catch(() => {});
  });
});

test("one caller's hanging call holds up nobody", async () => {
  await using both = await pair({ MCP_UPSTREAM_TIMEOUT_MS: "60000" });
  const { sluice, upstream } = both;
  const end = hold(upstream, ({ arguments: { text } }) => text === "hang");
  const hanging = atOnce(10, (id) => call(sluice, caller(), "echo", { text: "hang" }, id));
  await until(() => upstream.calls().length === 10, "ten calls hang");
  came(await call(sluice, caller()), "hello");
  assert.equal((await ask(sluice, caller(), "ping")).status, 200);
  end();
  assert.ok((await hanging).every(ran));
});

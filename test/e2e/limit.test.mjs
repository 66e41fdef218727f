// The limit as callers meet it. Where a count must be exact the bucket fills so slowly that no machine is slow enough to see a token
// come back; where time matters, what the elapsed time refills is allowed and nothing more.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  allRanOrRefused,
  atOnce,
  call,
  countRan,
  drain,
  message,
  metrics,
  nameOf,
  pass,
  ran,
  refusalOf,
  request,
  status,
} from "./calls.mjs";
import { start, worker } from "./harness.mjs";

const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "60000" };
const BATCHES = { "mcp-protocol-version": "2025-03-26" };

const batch = (sluice, address, messages) => sluice.mcp(messages, { address, headers: BATCHES });
const echoes = (count, from = 1) => Array.from({ length: count }, (_, index) => message("echo", { text: "hello" }, from + index));

// A request of 2026-07-28, as [message, headers].
function modern(method, params = {}) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: `client ${Math.random()}`, version: "1" },
  };
  const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": method };
  if (params.name) headers["mcp-name"] = params.name;
  return [request(method, { ...params, _meta }), headers];
}

const INITIALIZE = request("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "1" },
});

describe("with the limits that are shipped", () => {
  const sluice = worker();

  test("30 calls run, the next is refused with the wait, and another address still runs", async () => {
    const started = performance.now();
    const [count, refused] = await drain(sluice, "192.0.2.1");
    const elapsed = (performance.now() - started) / 1_000;
    assert.ok(count >= 30 && count <= 30 + Math.floor(elapsed / 2), `${count} ran in ${elapsed} s`);

    const { retryAfterMs, ...rest } = refusalOf(refused);
    assert.deepEqual(rest, { reason: "rate", allowance: "caller", tool: "echo" });
    assert.ok(Number.isInteger(retryAfterMs) && retryAfterMs >= 1 && retryAfterMs <= 2_000, `${retryAfterMs}`);
    const seconds = Math.ceil(retryAfterMs / 1_000);
    const { result } = refused;
    assert.equal(refused.status, 200);
    assert.equal(result.isError, true);
    assert.equal("structuredContent" in result, false);
    const text = `Rate limit reached for echo. Wait ${seconds} ${seconds === 1 ? "second" : "seconds"} before the next tool call.`;
    assert.deepEqual(result.content, [{ type: "text", text }]);
    assert.deepEqual(result._meta["sluice/allowance"], { limit: 30, remaining: 0, nextTokenMs: retryAfterMs });
    assert.equal(refused.headers.get("ratelimit-policy"), '"tools-call";q=30;w=60');
    assert.equal(refused.headers.get("ratelimit"), `"tools-call";r=0;t=${seconds}`);

    assert.ok(ran(await call(sluice, "192.0.2.2")), "another address");
  });

  test("a refused caller that waits exactly as long as it was told runs", async () => {
    const started = performance.now();
    let [count, refused] = await drain(sluice, "192.0.2.3");
    for (let round = 0; round < 3; round += 1) {
      await pass(refusalOf(refused).retryAfterMs);
      const answer = await call(sluice, "192.0.2.3");
      assert.ok(ran(answer), answer.text);
      const [more, next] = await drain(sluice, "192.0.2.3");
      count += 1 + more;
      refused = next;
    }
    const elapsed = (performance.now() - started) / 1_000;
    assert.ok(count <= 30 + elapsed / 2, `${count} ran in ${elapsed} s`);
  });

  test("an admitted call tells what is left, and a browser may read the headers", async () => {
    const answer = await sluice.mcp(message(), { address: "192.0.2.4", headers: { origin: "http://localhost:5173" } });
    const { nextTokenMs, ...left } = answer.result._meta["sluice/allowance"];
    assert.deepEqual(left, { limit: 30, remaining: 29 });
    assert.equal(nextTokenMs, 2_000);
    assert.equal(answer.headers.get("ratelimit"), '"tools-call";r=29;t=2');
    const exposed = answer.headers.get("access-control-expose-headers").toLowerCase().split(/\s*,\s*/);
    for (const name of ["ratelimit", "ratelimit-policy", "retry-after"]) assert.ok(exposed.includes(name), name);
  });
});

describe("with a bucket that hardly fills", () => {
  const sluice = worker({ vars: { ...SLOW, MCP_TOOLS: { list_decisions: { cost: 7 } } }, main: "test/e2e/faults/direct.mjs" });

  test("of 1,000 calls at once from one address exactly 30 run", async () => {
    const answers = await atOnce(1_000, () => call(sluice, "198.51.100.1"));
    allRanOrRefused(answers);
    assert.equal(countRan(answers), 30);
    assert.ok(!ran(await call(sluice, "198.51.100.1")));
  });

  test("of 200 dear calls at once only as many run as the bucket can pay", async () => {
    const answers = await atOnce(200, () => call(sluice, "198.51.100.2", "list_decisions"));
    allRanOrRefused(answers);
    assert.equal(countRan(answers), 4, "4 times 7");
    const [left] = await drain(sluice, "198.51.100.2");
    assert.equal(left, 2, "and the two tokens that are left can still be spent");
  });

  test("several addresses at once, with several costs: each spends its own 30 and no more", async () => {
    const addresses = Array.from({ length: 5 }, (_, index) => `198.51.100.${10 + index}`);
    const tools = ["list_decisions", "echo", "search_docs", "echo"];
    const costs = { list_decisions: 7, search_docs: 2, echo: 1 };
    const spent = Object.fromEntries(addresses.map((address) => [address, 0]));
    const answers = await atOnce(600, async (index) => {
      const [address, name] = [addresses[index % 5], tools[Math.floor(index / 5) % 4]];
      const answer = await call(sluice, address, name, name === "search_docs" ? { query: "bucket" } : undefined);
      if (ran(answer)) spent[address] += costs[name];
      return answer;
    });
    allRanOrRefused(answers);
    assert.deepEqual(spent, Object.fromEntries(addresses.map((address) => [address, 30])));
  });

  test("a dear call is told the wait for all that it costs", async () => {
    await drain(sluice, "198.51.100.20");
    const { retryAfterMs } = refusalOf(await call(sluice, "198.51.100.20", "list_decisions"));
    assert.ok(retryAfterMs > 6_900_000 && retryAfterMs <= 7_000_000, `${retryAfterMs}`);
  });

  test("IPv6 callers are known by their /64", async () => {
    const [count] = await drain(sluice, "2001:db8:1:2::1");
    assert.equal(count, 30);
    for (const same of ["2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:0DB8:0001:0002::7"]) {
      assert.equal(refusalOf(await call(sluice, same))?.reason, "rate", same);
    }
    assert.ok(ran(await call(sluice, "2001:db8:1:3::1")), "the next network");
  });

  test("an IPv4 address that is written as IPv6 is the same caller", async () => {
    await drain(sluice, "198.51.100.30");
    for (const same of ["::ffff:198.51.100.30", "::ffff:c633:641e", "::FFFF:198.51.100.30"]) {
      assert.equal(refusalOf(await call(sluice, same))?.reason, "rate", same);
    }
  });

  test("callers without a readable address share one bucket, and none passes free", async () => {
    const strangers = [
      { headers: { "test-without-address": "1" } },
      { address: "unknown" },
      { address: "203.0.113.9, 203.0.113.10" },
      { address: "203.0.113.256" },
      { address: "203.0.113.9:80" },
      { address: "[2001:db8::1]" },
      { address: "fe80::1%eth0" },
      { address: "3405803785" },
      { address: "0xcb.0.113.9" },
    ];
    const count = countRan(await Promise.all(Array.from({ length: 50 }, (_, i) => sluice.mcp(message(), strangers[i % strangers.length]))));
    assert.equal(count, 30);
    for (const stranger of strangers) {
      const answer = await sluice.mcp(message(), stranger);
      assert.equal(refusalOf(answer)?.reason, "rate", JSON.stringify(stranger));
    }
    const body = JSON.stringify(message());
    const twice = await sluice.raw(
      [
        ...["POST /mcp HTTP/1.1", `Host: ${sluice.url.host}`, "Content-Type: application/json", "Connection: close"],
        ...["CF-Connecting-IP: 203.0.113.21", "CF-Connecting-IP: 203.0.113.22", `Content-Length: ${body.length}`, "", body],
      ].join("\r\n"),
      { wait: 5_000 },
    );
    assert.match(twice, /Rate limit reached/, "the header twice");
    assert.ok(ran(await call(sluice, "203.0.113.9")), "a readable one isn't among them");
  });

  test("nothing that a client says of itself makes another caller of it", async () => {
    await drain(sluice, "198.51.100.40");
    const claims = [
      { "x-forwarded-for": "203.0.113.50" },
      { "x-real-ip": "203.0.113.50" },
      { forwarded: "for=203.0.113.50" },
      { "true-client-ip": "203.0.113.50" },
      { "x-client-ip": "203.0.113.50" },
      { "cf-connecting-ipv6": "2001:db8::50" },
      { "mcp-session-id": "a-session-of-its-own" },
      { authorization: "Bearer somebody" },
      { "user-agent": "another/1.0" },
      { cookie: "caller=another" },
    ];
    for (const headers of claims) {
      const answer = await sluice.mcp(message(), { address: "198.51.100.40", headers });
      assert.equal(refusalOf(answer)?.reason, "rate", JSON.stringify(headers));
    }
    const named = message();
    named.params._meta = { progressToken: 1, clientInfo: { name: "another", version: "1" } };
    assert.equal(refusalOf(await sluice.mcp(named, { address: "198.51.100.40" }))?.reason, "rate");
    const [call2026, headers] = modern("tools/call", { name: "echo", arguments: { text: "hello" } });
    assert.equal(refusalOf(await sluice.mcp(call2026, { address: "198.51.100.40", headers }))?.reason, "rate", "clientInfo");
    for (const headers of claims) {
      const forged = Object.fromEntries(Object.entries(headers).map(([name]) => [name, "198.51.100.40"]));
      const answer = await sluice.mcp(message(), { address: "198.51.100.41", headers: forged });
      assert.ok(ran(answer), `nobody can spend another's bucket: ${JSON.stringify(forged)}`);
    }
  });

  const free = {
    initialize: [INITIALIZE],
    ping: [request("ping")],
    "tools/list": [request("tools/list")],
    "server/discover": modern("server/discover"),
    "tools/list of 2026-07-28": modern("tools/list"),
    "a notification": [{ jsonrpc: "2.0", method: "notifications/initialized" }],
    "a notification called tools/call": [{ jsonrpc: "2.0", method: "tools/call", params: { name: "echo", arguments: { text: "x" } } }],
    "an unknown method": [request("resources/list")],
    "an unknown tool": [message("no_such_tool", {})],
    "bad arguments": [message("echo", { text: 7 })],
    "no arguments": [request("tools/call", { name: "echo" })],
    "params of the wrong type": [request("tools/call", [1])],
    rate_limit_status: [message("rate_limit_status")],
  };
  for (const [what, [body, headers]] of Object.entries(free)) {
    test(`${what}: not charged, stores nothing, and is answered when the bucket is empty`, async () => {
      const address = `203.0.113.${100 + Object.keys(free).indexOf(what)}`;
      const fresh = await sluice.mcp(body, { address, headers });
      assert.ok(fresh.status < 300 || fresh.error, fresh.text);
      assert.deepEqual(await sluice.stored(nameOf(address)), { all: [], row: undefined, alarm: null });
      const [count] = await drain(sluice, address);
      assert.equal(count, 30);
      const empty = await sluice.mcp(body, { address, headers });
      assert.equal(empty.status, fresh.status);
      assert.equal(refusalOf(empty), undefined, empty.text);
      if (what !== "rate_limit_status") assert.equal(empty.text, fresh.text);
    });
  }

  test("rate_limit_status tells what is left as often as it is asked, and spends nothing", async () => {
    const address = "203.0.113.150";
    assert.deepEqual(await status(sluice, address), { limit: 30, remaining: 30, nextTokenMs: 0 });
    await call(sluice, address);
    await call(sluice, address, "list_decisions");
    for (const { result } of await atOnce(60, () => call(sluice, address, "rate_limit_status"))) {
      assert.deepEqual([result.structuredContent.limit, result.structuredContent.remaining], [30, 22]);
    }
    const [count] = await drain(sluice, address);
    assert.equal(count, 22);
    const { remaining, nextTokenMs } = await status(sluice, address);
    assert.equal(remaining, 0);
    assert.ok(nextTokenMs > 900_000 && nextTokenMs <= 1_000_000, `${nextTokenMs}`);
  });

  test("a batch costs the sum of its calls, and what is free in it stays free", async () => {
    const address = "203.0.113.160";
    const answer = await batch(sluice, address, [
      ...echoes(3),
      request("ping", undefined, 10),
      message("list_decisions", {}, 11),
      message("echo", {}, 12),
      message("no_such_tool", {}, 13),
      { jsonrpc: "2.0", method: "notifications/initialized" },
      message("rate_limit_status", {}, 14),
    ]);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json.map(({ id }) => id), [1, 2, 3, 10, 11, 12, 13, 14]);
    assert.deepEqual(answer.json.filter(ranIn).map(({ id }) => id), [1, 2, 3, 11, 14]);
    const last = answer.json.at(-1).result;
    assert.equal(last.structuredContent.remaining, 20);
    assert.match(answer.headers.get("ratelimit"), /^"tools-call";r=20;t=\d+$/);
    assert.equal((await status(sluice, address)).remaining, 20);
  });

  test("a batch that isn't admitted is refused whole: nothing runs, nothing is charged, the rest is answered", async () => {
    const address = "203.0.113.161";
    await batch(sluice, address, echoes(28));
    const mixed = [...echoes(2), request("ping", undefined, "p"), message("list_decisions", {}, 4), message("echo", {}, 5)];
    const refused = await batch(sluice, address, mixed);
    assert.equal(refused.status, 200);
    const byId = Object.fromEntries(refused.json.map((answer) => [answer.id, answer]));
    for (const [id, tool] of [[1, "echo"], [2, "echo"], [4, "list_decisions"]]) {
      const { reason, retryAfterMs, tool: named } = refusalOf(byId[id]);
      assert.deepEqual([reason, named], ["rate", tool]);
      assert.ok(retryAfterMs > 6_900_000 && retryAfterMs <= 7_000_000, `the wait for all of it: ${retryAfterMs}`);
      assert.match(byId[id].result.content[0].text, new RegExp(`^Rate limit reached for ${tool}\\. Wait \\d+ seconds before the next tool call\\.$`));
    }
    assert.deepEqual(byId.p.result, {});
    assert.equal(byId[5].result.isError, true);
    assert.equal(refusalOf(byId[5]), undefined, "bad arguments are told as such");
    const [left] = await drain(sluice, address);
    assert.equal(left, 2);
  });

  test("a batch dearer than the bucket is told that it can never run", async () => {
    const address = "203.0.113.162";
    const answer = await batch(sluice, address, [...echoes(31), request("ping", undefined, "p")]);
    assert.equal(answer.status, 200);
    for (const one of answer.json.slice(0, 31)) {
      assert.deepEqual(refusalOf(one), { reason: "capacity", allowance: "caller", tool: "echo" });
      assert.equal(one.result.content[0].text, "This batch costs 31 tokens and the bucket holds 30. It can never run.");
    }
    assert.deepEqual(answer.json[31].result, {});
    assert.ok((await batch(sluice, address, echoes(30))).json.every(ranIn), "nothing was charged");
  });

  test("of many batches at once only whole ones run, as many as the bucket can pay", async () => {
    const answers = await atOnce(100, () => batch(sluice, "203.0.113.163", echoes(7)));
    const whole = answers.filter(({ json }) => json.every(ranIn)).length;
    const none = answers.filter(({ json }) => json.every((one) => refusalOf(one)?.reason === "rate")).length;
    assert.deepEqual([whole, none], [4, 96]);
  });
});

const ranIn = ({ result }) => result?.isError === false;

test("a wait of a second or less is told as 1 second", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "1", MCP_RATE_LIMIT_BURST: "1" } });
  const [, refused] = await drain(sluice, "192.0.2.1");
  assert.equal(refused.result.content[0].text, "Rate limit reached for echo. Wait 1 second before the next tool call.");
  assert.equal(refused.headers.get("ratelimit-policy"), '"tools-call";q=1;w=1');
  const never = await call(sluice, "192.0.2.1", "search_docs", { query: "bucket" });
  assert.deepEqual(refusalOf(never), { reason: "capacity", allowance: "caller", tool: "search_docs" });
  assert.equal(never.result.content[0].text, "This call of search_docs costs 2 tokens and the bucket holds 1. It can never run.");
});

test("a rate of 0 switches buckets off: no object is asked and nothing is told", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0" } });
  const answers = await atOnce(100, () => call(sluice, "192.0.2.1"));
  assert.equal(countRan(answers), 100);
  const [one] = answers;
  assert.deepEqual([one.headers.get("ratelimit"), one.headers.get("ratelimit-policy")], [null, null]);
  assert.equal(one.result._meta?.["sluice/allowance"], undefined);
  assert.ok(ran(await call(sluice, "192.0.2.1", "rate_limit_status")));
  assert.ok((await batch(sluice, "192.0.2.1", echoes(100))).json.every(ranIn), "no batch is too dear");
  assert.deepEqual(await sluice.objects(), []);
  assert.equal((await metrics(sluice)).mcp_limiter_questions_total, 0);
});

describe("with MCP_REFUSAL=http", () => {
  const sluice = worker({ vars: { ...SLOW, MCP_REFUSAL: "http" } });

  test("a refused call is a 429 with Retry-After and the same facts in a JSON-RPC error", async () => {
    await drain(sluice, "192.0.2.1");
    const refused = await sluice.mcp(message("echo", { text: "x" }, "an id"), { address: "192.0.2.1" });
    assert.equal(refused.status, 429);
    const { retryAfterMs, ...rest } = refused.json.error.data;
    assert.deepEqual(rest, { reason: "rate", allowance: "caller", tool: "echo" });
    assert.ok(retryAfterMs > 900_000 && retryAfterMs <= 1_000_000, `${retryAfterMs}`);
    const seconds = Math.ceil(retryAfterMs / 1_000);
    assert.equal(refused.headers.get("retry-after"), String(seconds));
    const text = `Rate limit reached for echo. Wait ${seconds} seconds before the next tool call.`;
    assert.deepEqual(refused.json, { jsonrpc: "2.0", id: "an id", error: { code: -31004, message: text, data: refused.json.error.data } });
    assert.match(refused.headers.get("content-type"), /^application\/json/);
    assert.match(refused.headers.get("ratelimit"), /^"tools-call";r=0;t=\d+$/);
    assert.equal(refused.headers.get("ratelimit-policy"), '"tools-call";q=30;w=30000');
    for (const body of [INITIALIZE, request("ping"), request("tools/list"), message("rate_limit_status"), message("echo", {})]) {
      assert.equal((await sluice.mcp(body, { address: "192.0.2.1" })).status, 200, JSON.stringify(body));
    }
  });

  test("a refused batch is a 429 with an error for each of its requests, and nothing of it runs", async () => {
    const address = "192.0.2.2";
    assert.equal((await batch(sluice, address, echoes(28))).status, 200);
    const mixed = [...echoes(3), { jsonrpc: "2.0", method: "notifications/initialized" }, request("ping", undefined, "p"), message("echo", {}, 9)];
    const refused = await batch(sluice, address, mixed);
    assert.equal(refused.status, 429);
    assert.deepEqual(refused.json.map(({ id }) => id), [1, 2, 3, "p", 9]);
    for (const { error, result } of refused.json) {
      assert.equal(result, undefined);
      assert.deepEqual([error.code, error.data.reason, error.data.allowance], [-31004, "rate", "caller"]);
      assert.match(error.message, /^Rate limit reached for echo\. Wait \d+ seconds before the next tool call\.$/);
    }
    assert.ok(Number(refused.headers.get("retry-after")) > 900);
    const [left] = await drain(sluice, address);
    assert.equal(left, 2, "nothing was charged");
    const harmless = await batch(sluice, address, [request("ping", undefined, 1), message("echo", {}, 2)]);
    assert.equal(harmless.status, 200, "a batch without calls isn't limited");
  });

  test("what can never run is a 400 without Retry-After", async () => {
    const refused = await batch(sluice, "192.0.2.3", echoes(31));
    assert.equal(refused.status, 400);
    assert.equal(refused.headers.get("retry-after"), null);
    assert.equal(refused.json.length, 31);
    assert.deepEqual(refused.json[0].error, {
      code: -31004,
      message: "This batch costs 31 tokens and the bucket holds 30. It can never run.",
      data: { reason: "capacity", allowance: "caller", tool: "echo" },
    });
    assert.ok(ran(await call(sluice, "192.0.2.3")));
  });
});

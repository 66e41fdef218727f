// Faults that users of other limiters, servers and clients have reported in public: each that can happen here has a test, named after it
// unless it is shown in another file. One line each: where it was reported, and where it is shown that it doesn't happen here, or why it
// can't. Names of tests in other files are cut short.
//
// Durable Objects, workerd, workers-rs
//  1 workerd#2993                             here
//  2 workerd#6044                             here
//  3 cloudflare-docs#15685                    can't: nothing follows set_alarm in the handler. object.test.mjs: an alarm that comes early
//  4 workerd#3138, #3566                      here
//  5 workerd#7191                             can't: every class is stored in SQLite (wrangler.toml), in tests too
//  6 workerd#3264; workers-rs#166, #866       panics.test.mjs, all of it
//  7 workers-rs#707, #1011                    here, with 15
//  8 azul#62; workers-rs#737                  here
//  9 azul#80                                  here
// 10 workers-sdk#14962, #14968                with the flood gate: no test counts what its binding counts
// 11 openclaw#13745                           here; object.test.mjs: an eviction in the middle of a flood
// 12 cloudflare/agents#1083                   here
// 13 TarkovTracker PR #528, #529              object.test.mjs: a longer busy period costs one alarm more; stats.test.mjs: an admitted call
//
// Rate limiters
// 14 hono-rate-limiter#47                     here
// 15 durable-limiter#5                        here, with 7
// 16 node-rate-limiter-flexible#337           here
// 17 node-rate-limiter-flexible#238           here; test/properties.rs: a_clock_that_goes_back
// 18 upstash/ratelimit-js#70                  here, with 32
// 19 worldmonitor#8356; Code2Flow#11          here; of one that hangs: faults.test.mjs
// 20 mcp-context-forge#3740, #3750            here; no eviction: faults.test.mjs: at its bound the isolate's map
// 21 mcp-context-forge#4343                   test/e2e/tokens.test.mjs; of addresses limit.test.mjs: callers without a readable address
// 22 PatchMon#868                             here; object.test.mjs: a row that can't be read
// 23 vaporforge#135                           here, with 48
// 24 CLIProxyAPI#5265                         here
// 25 MediaWiki-MCP-Server#552, #568           can't: the core is given its time. test/properties.rs: a_clock_that_goes_back; here, 17
// 26 symaira-memory#530; alkemio#1956         limit.test.mjs: 30 calls run, the next is refused; each setting: config.test.mjs, allowances.test.mjs
// 27 maverick-mcp#98                          here; limit.test.mjs: not charged, stores nothing, and is answered
//
// MCP over HTTP, and clients
// 28 typescript-sdk#1892                      here, with 34; by every official client: clients.test.mjs
// 29 rust-sdk (its client)                    here, with 45 and 46
// 30 typescript-sdk#654; repomix#833; arcade-mcp#817; tailscale-mcp#101; mcp-context-forge#4136: here
// 31 hermes-agent#10776 and others            here, with 33
// 32 agentmail-mcp PR #57                     here, with 18; its own upstream: with the gateway
// 33 langfuse PR #16058; basic-memory#1378    here, with 31; limit.test.mjs: a refused caller that waits exactly
// 34 opencode#16993; code_puppy#878           here, with 28
// 35 wayland-core#159                         here; src/refusal.rs: the_texts_are_what_they_always_were
// 36 claude-code#55228, #90494                here
// 37 awslabs/mcp#2949; shopware#18906; omi PR #7605: here
// 38 vercel/ai#16181, #16494                  can't: nothing relies on a retry. faults.test.mjs: a question is asked once
// 39 workers-oauth-provider#214 and others    test/e2e/tokens.test.mjs
// 40 agentgateway#3284, PR #1090              here; of another server's tools: with the gateway
// 41 envoyproxy/ai-gateway#2448               can't: no policy is generated, and none of the user's is in the way
// 42 Meraki.Api#389, #390; opik-mcp#96        with the gateway
// 43 fastapi_mcp#81                           here
// 44 claude-ai-mcp#413                        with the flood gate: nothing else refuses what isn't a call
// 45 mcp-context-forge#3560, #2668            here, with 29 and 46
// 46 firezone PR #15066                       here, with 29 and 45
// 47 maple PR #679                            here
// 48 Garrul#53, PR #65                        here, with 23
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
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
  until,
} from "./calls.mjs";
import { worker } from "./harness.mjs";

// 5 calls, and then one in a thousand seconds: on no machine does a token come back unasked.
const BURST = 5;
const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_RATE_LIMIT_BURST: String(BURST), MCP_LIMITER_TIMEOUT_MS: "60000" };
const FULL_US = BURST * 1_000_000_000;
// A tool's bucket that gives a token back every 500 ms.
const QUICK = { rate: 2, burst: 1 };
const GAP_MS = 4_000;

const [HOUR, DAY, YEAR] = [3_600, 86_400, 365 * 86_400].map((seconds) => seconds * 1_000_000);
const NOTHING = { all: [], row: undefined, alarm: null };
const INITIALIZE = request("initialize", {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "test", version: "1" },
});
const INITIALIZED = { jsonrpc: "2.0", method: "notifications/initialized" };
const WAIT = /\. Wait (\d+) seconds? before the next tool call\.$/;

const text = (answer) => answer.result.content[0].text;
const left = (answer) => answer.result._meta?.["sluice/allowance"]?.remaining;
const nowUs = () => Date.now() * 1_000;
const rowOf = async (sluice, address) => JSON.parse((await sluice.stored(nameOf(address))).row);

/** Puts a row in a caller's object that this isolate hasn't heard of: what isn't given is that of a bucket that owes nothing. */
async function put(sluice, address, row) {
  await call(sluice, address, "rate_limit_status");
  await sluice.store(nameOf(address), JSON.stringify({ debt: 0, at: nowUs(), refill: 1_000, ...row }));
}

/**
 * Empties the quick tool's bucket. It was counted by a clock that ran ahead, so that it begins to fill when it is asked for next, however
 * long that takes: the wait is 500 ms.
 */
const emptyQuick = (sluice, address) =>
  put(sluice, address, { tools: { list_decisions: { debt: 1_000_000, at: nowUs() + HOUR, refill: 2_000_000 } } });

/** Counters of /metrics that `work` changed, labels of the caller left out. */
async function counted(sluice, work) {
  const seen = await metrics(sluice);
  await work();
  const changed = Object.entries(await metrics(sluice)).map(([name, value]) => [name, value - (seen[name] ?? 0)]);
  const some = changed.filter(([, change]) => change !== 0);
  return Object.fromEntries(some.map(([name, change]) => [name.replace(/,caller=.*/, "}"), change]));
}

describe("of objects and their alarms", () => {
  const sluice = worker({ vars: SLOW, main: "test/e2e/faults/direct.mjs" });

  async function ask(name, body, path = "/") {
    const query = new URLSearchParams({ name, path });
    const init = { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) };
    const response = await sluice.fetch(`/object?${query}`, init);
    return { status: response.status, text: await response.text() };
  }
  const emptied = (name) => until(async () => (await sluice.stored(name)).all.length === 0, `${name} to leave nothing`);

  test("deleteAll in the alarm makes it fail and come again (workerd#2993)", async () => {
    sluice.clearLogs();
    for (const [name, cost] of [["one second", 1_000_000], ["three seconds", 3_000_000]]) {
      // A bucket that is full again so soon. A retry of the first one's alarm would come while the second fills.
      assert.equal((await ask(name, { cost, capacity: 5_000_000, refill: 1_000_000 })).status, 200);
      await emptied(name);
    }
    const alarms = await sluice.logged(/^alarm$/, { count: 2 });
    assert.equal(alarms.length, 2, "one for each object");
    assert.deepEqual(sluice.logs().filter(({ level }) => level === "error"), []);
  });

  test("deleteAll leaves the alarm behind (workerd#6044)", async () => {
    const name = nameOf("192.0.2.1");
    await call(sluice, "192.0.2.1");
    assert.notEqual((await sluice.stored(name)).alarm, null, "pending for long");
    await put(sluice, "192.0.2.1", {});
    assert.equal((await ask(name, "", "/alarm")).status, 200);
    assert.deepEqual(await sluice.stored(name), NOTHING);
  });

  test("an alarm fires after the storage is gone, and fails or brings it back (workerd#3138, #3566)", async () => {
    for (const address of ["192.0.2.1", "192.0.2.2"]) {
      for (let twice = 0; twice < 2; twice += 1) assert.equal((await ask(nameOf(address), "", "/alarm")).status, 200);
      assert.deepEqual(await sluice.stored(nameOf(address)), NOTHING);
      assert.equal(left(await call(sluice, address)), BURST - 1);
    }
  });

  test("an alarm's time is taken for a span or in another unit, and it never comes (workers-rs#707, durable-limiter#5)", async () => {
    const earliest = Date.now();
    await call(sluice, "192.0.2.3");
    const { row, alarm } = await sluice.stored(nameOf("192.0.2.3"));
    const { at, alarm: due } = JSON.parse(row);
    assert.equal(due - at, 1_000_000_000, "one token of a thousand seconds");
    assert.equal(alarm, due / 1_000);
    // The clocks of two processes need not agree to the millisecond.
    assert.ok(alarm >= earliest + 1_000_000 - 1_000 && alarm <= Date.now() + 1_000_000 + 1_000, `${new Date(alarm)}`);
  });

  test("an alarm in the past, or of another window, is taken for a pending one (hono-rate-limiter#47)", async () => {
    const now = nowUs();
    const rows = {
      "192.0.2.4": { debt: 3_000_000, at: now, alarm: now - HOUR },
      // Under the policy of then, a millionth of a token a second, the debt takes a year and more.
      "192.0.2.5": { debt: 3_000_000, at: now, refill: 1, alarm: now + 3 * YEAR },
    };
    for (const [address, row] of Object.entries(rows)) {
      await put(sluice, address, row);
      assert.equal((await sluice.stored(nameOf(address))).alarm, null);
      assert.ok(ran(await call(sluice, address)));
      const { row: stored, alarm } = await sluice.stored(nameOf(address));
      const { at, debt } = JSON.parse(stored);
      assert.equal(alarm, Math.ceil((at + debt * 1_000) / 1_000), "when nothing is owed any more");
    }
  });

  test("a borrow that is held over an await panics at the next event (azul#62, workers-rs#737)", async () => {
    const answers = await atOnce(120, async (index) => {
      const address = `192.0.2.${100 + (index % 7)}`;
      if (index % 3 === 0) return metrics(sluice).then(() => undefined);
      return call(sluice, address, index % 3 === 1 ? "echo" : "rate_limit_status");
    });
    // After a panic one of them would be answered by the guard of src/entry.mjs.
    allRanOrRefused(answers.filter((answer) => answer !== undefined));
  });

  test("a stub is kept after an error, and keeps failing (azul#80)", async () => {
    assert.equal(left(await call(sluice, "192.0.2.6")), BURST - 1);
    assert.equal((await ask(nameOf("192.0.2.6"), "", "/abort")).status, 500);
    const answers = [await call(sluice, "192.0.2.6"), await call(sluice, "192.0.2.6")];
    assert.deepEqual(answers.map(left), [BURST - 2, BURST - 3], "the object told");
    assert.deepEqual(sluice.logs(/limiter_failure/), []);
  });

  test("objects that are reset at every deploy lose what was answered (openclaw#13745)", async () => {
    for (let more = BURST - 1; more >= 0; more -= 1) {
      assert.equal(left(await call(sluice, "192.0.2.7")), more);
      await ask(nameOf("192.0.2.7"), "", "/abort");
    }
    // Seen by the object itself, not by what the isolate remembers.
    const asked = await ask(nameOf("192.0.2.7"), { cost: 1_000_000, capacity: 5_000_000, refill: 1_000 });
    assert.equal(JSON.parse(asked.text).admitted, false);
  });

  test("each session gets an object with storage, and a large bill comes (agents#1083)", async () => {
    const before = await sluice.objects();
    const session = (index) => ({ "mcp-session-id": `session ${index}` });
    for (const one of [INITIALIZE, INITIALIZED, request("tools/list")]) {
      await atOnce(10, (index) => sluice.mcp(one, { address: "192.0.2.8", headers: session(index) }));
    }
    assert.deepEqual(await sluice.objects(), before, "sessions that call nothing cost nothing");
    await atOnce(20, (index) => sluice.mcp(message(), { address: "192.0.2.8", headers: session(index) }));
    const made = (await sluice.objects()).filter((id) => !before.includes(id));
    assert.deepEqual(made, [await sluice.id(nameOf("192.0.2.8"))]);
  });

  test("reading, changing and writing race, so calls in flight are N times the limit (vaporforge#135, Garrul#53)", async () => {
    for (const runs of [BURST, 0]) {
      const answers = await atOnce(200, () => call(sluice, "192.0.2.9"));
      allRanOrRefused(answers);
      assert.equal(countRan(answers), runs);
    }
  });

  test("each process counts for itself, and a wrong limit is told by the first call alone (mcp-context-forge#3740)", async () => {
    await drain(sluice, "192.0.2.10");
    // Another isolate, which has heard of nobody.
    await sluice.update({ vars: { MCP_RATE_LIMIT: "fast" } });
    const health = await sluice.fetch("/healthz");
    assert.equal(health.status, 503);
    assert.match((await health.json()).error, /\bMCP_RATE_LIMIT\b.*"fast"/);
    await sluice.update({ vars: SLOW });
    assert.equal(refusalOf(await call(sluice, "192.0.2.10"))?.reason, "rate");
  });
});

describe("of refusals as results", () => {
  const sluice = worker({
    vars: {
      ...SLOW,
      MCP_MAX_WAIT_MS: String(GAP_MS + 500),
      MCP_TOOLS: {
        list_decisions: QUICK,
        read_decision: { fail: "insured", quota: "2/day" },
        describe_component: { fail: "closed", min_gap_ms: GAP_MS },
      },
    },
  });
  const ARGUMENTS = { read_decision: { id: "0001" }, describe_component: { name: "rate-limiter" } };
  const use = (address, tool) => call(sluice, address, tool, ARGUMENTS[tool]);

  test("a refusal taken for a store failure is admitted by the insurance (node-rate-limiter-flexible#337)", async () => {
    sluice.clearLogs();
    const answers = {};
    const changed = await counted(sluice, async () => {
      for (const [tool, address] of [["echo", "192.0.2.1"], ["read_decision", "192.0.2.2"], ["describe_component", "192.0.2.3"]]) {
        // Only the object knows that nothing is left: a bucket in the isolate would be full.
        await put(sluice, address, { debt: BURST * 1_000_000 });
        answers[tool] = refusalOf(await use(address, tool))?.reason;
      }
    });
    assert.deepEqual(answers, { echo: "rate", read_decision: "rate", describe_component: "rate" }, "open, insured and closed");
    assert.deepEqual(Object.keys(changed).filter((name) => name.includes("failures")), []);
    assert.deepEqual(sluice.logs(/limiter_failure/), []);
  });

  test("what is counted never runs out, or was counted ahead of time, and locks users out for ever (PatchMon#868)", async () => {
    const [now, full] = [nowUs(), BURST * 1_000_000];
    const usage = (start) => [{ tool: "read_decision", window: "day", start: start - (start % DAY), calls: 2 }];
    // No alarm is pending for any of them.
    await put(sluice, "192.0.2.4", { debt: full, at: now - DAY, alarm: now - DAY + FULL_US });
    await put(sluice, "192.0.2.5", { at: now, quotas: usage(now - 2 * DAY) });
    for (const address of ["192.0.2.4", "192.0.2.5"]) assert.ok(ran(await use(address, "read_decision")), address);

    await put(sluice, "192.0.2.6", { debt: full, at: now + YEAR, alarm: now + YEAR + FULL_US });
    await put(sluice, "192.0.2.7", { at: now + YEAR, quotas: usage(now + YEAR), alarm: now + YEAR + DAY });
    const [bucket, quota] = [refusalOf(await use("192.0.2.6", "echo")), refusalOf(await use("192.0.2.7", "read_decision"))];
    assert.deepEqual([bucket.reason, quota.reason], ["rate", "quota"]);
    assert.ok(bucket.retryAfterMs <= 1_000_000, `${bucket.retryAfterMs}: until the next token`);
    assert.ok(quota.retryAfterMs <= DAY / 1_000, `${quota.retryAfterMs}: until midnight`);
  });

  test("a long wait is slept or spun through inside a call (agentmail-mcp PR #57, ratelimit-js#70)", async () => {
    const order = [];
    const noting = (what, answer) => answer.then((told) => (order.push(what), told));
    assert.ok(ran(await use("192.0.2.8", "describe_component")));
    // One of them has its turn after the gap, and is held back; the turn of the other would be too far off.
    const both = ["192.0.2.9", "192.0.2.10"].map((address) => use(address, "describe_component"));
    const first = await noting("refused", Promise.race(both));
    await noting("another", use("192.0.2.11", "echo"));
    await noting("held", Promise.all(both));
    const answers = await Promise.all(both);
    const { reason, allowance, retryAfterMs } = refusalOf(first);
    assert.deepEqual([reason, allowance], ["rate", "spacing"]);
    assert.ok(retryAfterMs > 0 && retryAfterMs <= 2 * GAP_MS);
    assert.equal(countRan(answers), 1);
    assert.deepEqual(order, ["refused", "another", "held"]);
  });

  test("no exact wait is told, so clients retry blindly or leave (hermes-agent#10776, langfuse PR #16058)", async () => {
    await emptyQuick(sluice, "192.0.2.12");
    const refused = await use("192.0.2.12", "list_decisions");
    assert.deepEqual(refusalOf(refused), { reason: "rate", allowance: "tool", tool: "list_decisions", retryAfterMs: 500 });
    assert.equal(text(refused), "Rate limit reached for list_decisions. Wait 1 second before the next tool call.");
    await pass(refusalOf(refused).retryAfterMs);
    assert.ok(ran(await use("192.0.2.12", "list_decisions")), "there is no second refusal, let alone a third in a row");
  });

  test("a client that ignores isError takes a refusal for an answer (wayland-core#159)", async () => {
    const now = nowUs();
    await put(sluice, "192.0.2.13", { debt: BURST * 1_000_000 });
    await put(sluice, "192.0.2.14", { quotas: [{ tool: "read_decision", window: "day", start: now - (now % DAY), calls: 2 }] });
    await emptyQuick(sluice, "192.0.2.15");
    const refused = [["192.0.2.13", "echo"], ["192.0.2.14", "read_decision"], ["192.0.2.15", "list_decisions"]];
    for (const [address, tool] of refused) {
      const { result } = await use(address, tool);
      const [block, ...more] = result.content;
      assert.deepEqual([block.type, more], ["text", []], "nothing but the refusal can be read");
      assert.match(block.text, new RegExp(`^(Rate limit reached for ${tool}|Quota of 2 calls of ${tool} a day used up)\\. `));
      const [, seconds] = block.text.match(WAIT);
      assert.equal(Number(seconds), Math.ceil(result._meta["sluice/refusal"].retryAfterMs / 1_000), "the text says what the fields say");
    }
  });

  test("the limit doesn't see the tool, and denied calls are charged (agentgateway#3284, PR #1090)", async () => {
    const address = "192.0.2.16";
    await put(sluice, address, { tools: { list_decisions: { debt: 1_000_000, at: nowUs() + HOUR, refill: 1 } } });
    const denied = [["no_such_tool", {}], ["echo", { text: 7 }], ["read_decision", {}]];
    for (const [tool, args] of denied) await call(sluice, address, tool, args);
    assert.equal(refusalOf(await use(address, "list_decisions")).allowance, "tool");
    assert.equal((await rowOf(sluice, address)).debt, 0);
    assert.equal(left(await call(sluice, address, "search_docs", { query: "bucket" })), BURST - 2, "two tokens");
    assert.equal(left(await use(address, "echo")), BURST - 3, "one");
  });

  async function connected(address) {
    const faults = [];
    const client = new Client({ name: "test", version: "1" });
    client.onerror = (error) => faults.push(error);
    const requestInit = { headers: { "cf-connecting-ip": address } };
    await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", sluice.url), { requestInit }));
    return { client, faults, [Symbol.asyncDispose]: () => client.close() };
  }

  test("a refusal becomes a transport error, and the session ends (typescript-sdk#1892, opencode#16993)", async () => {
    await using connection = await connected("192.0.2.17");
    const { client, faults } = connection;
    await drain(sluice, "192.0.2.17");
    for (let more = 0; more < 3; more += 1) {
      const { isError, content } = await client.callTool({ name: "echo", arguments: { text: "hello" } });
      assert.equal(isError, true);
      assert.match(content[0].text, WAIT);
    }
    assert.ok((await client.listTools()).tools.length > 0, "the session goes on");
    assert.equal((await client.callTool({ name: "rate_limit_status", arguments: {} })).structuredContent.remaining, 0);
    assert.deepEqual(faults, []);
  });

  test("a refusal is rejected as it isn't of the tool's output schema (typescript-sdk#654)", async () => {
    await using connection = await connected("192.0.2.18");
    const { client } = connection;
    const { tools } = await client.listTools();
    assert.ok(tools.find(({ name }) => name === "list_decisions").outputSchema, "the client holds results against it");
    await drain(sluice, "192.0.2.18");
    const refused = await client.callTool({ name: "list_decisions", arguments: {} });
    assert.equal(refused.isError, true);
    assert.equal("structuredContent" in refused, false);
    assert.equal(refused._meta["sluice/refusal"].reason, "rate");
  });
});

describe("of refusals as HTTP", () => {
  const sluice = worker({ vars: { ...SLOW, MCP_REFUSAL: "http", MCP_TOOLS: { list_decisions: QUICK } } });

  test("the clock stands ahead or behind, and the wait comes out negative (node-rate-limiter-flexible#238)", async () => {
    for (const [index, ahead] of [1_000, HOUR, YEAR, -HOUR].entries()) {
      const address = `192.0.2.${1 + index}`;
      // So much is owed that an hour doesn't pay it.
      await put(sluice, address, { debt: 2 * BURST * 1_000_000, at: nowUs() + ahead });
      const { status, headers, error } = await call(sluice, address);
      assert.equal(status, 429);
      const { retryAfterMs } = error.data;
      assert.ok(retryAfterMs >= 1 && retryAfterMs <= 6_000_000, `${retryAfterMs}: six tokens of a thousand seconds at most`);
      assert.equal(headers.get("retry-after"), String(Math.ceil(retryAfterMs / 1_000)));
    }
  });

  test("a wait below a second is told as Retry-After: 0 or 0.5, and a storm of retries follows (CLIProxyAPI#5265)", async () => {
    await emptyQuick(sluice, "192.0.2.10");
    const { status, headers, error } = await call(sluice, "192.0.2.10", "list_decisions");
    assert.deepEqual([status, error.data.allowance, error.data.retryAfterMs], [429, "tool", 500]);
    assert.equal(headers.get("retry-after"), "1");
    assert.equal(headers.get("ratelimit"), '"tools-call:list_decisions";r=0;t=1');
  });

  test("a refusal has no status, or its header alone tells the wait (rust-sdk, mcp-context-forge#3560, firezone PR #15066)", async () => {
    await drain(sluice, "192.0.2.11");
    const refused = await sluice.mcp(message("echo", { text: "hello" }, "an id"), { address: "192.0.2.11" });
    assert.deepEqual([refused.status, refused.json.id], [429, "an id"]);
    const seconds = Number(refused.headers.get("retry-after"));
    assert.ok(seconds > 900 && seconds <= 1_000, `${seconds}`);
    assert.equal(refused.error.message, `Rate limit reached for echo. Wait ${seconds} seconds before the next tool call.`);
    assert.equal(Math.ceil(refused.error.data.retryAfterMs / 1_000), seconds);
    assert.equal(refused.headers.get("ratelimit"), `"tools-call";r=0;t=${seconds}`);
    assert.equal(refused.headers.get("ratelimit-policy"), `"tools-call";q=${BURST};w=${BURST * 1_000}`);
  });

  test("the limiter sits at the wrong layer, and tools/list breaks (maverick-mcp#98)", async () => {
    const list = () => sluice.mcp(request("tools/list"), { address: "192.0.2.12" });
    const full = await list();
    await drain(sluice, "192.0.2.12");
    const empty = await list();
    assert.deepEqual([empty.status, empty.text], [200, full.text]);
    assert.ok(empty.result.tools.length >= 6);
  });

  test("a handshake, a stream or a list is refused, and the server taken for dead (claude-code#55228)", async () => {
    const address = "192.0.2.13";
    await drain(sluice, address);
    for (const one of [INITIALIZE, request("ping"), request("tools/list"), request("resources/list")]) {
      const answers = await atOnce(2 * BURST, () => sluice.mcp(one, { address }));
      for (const { status, json } of answers) assert.deepEqual([status, json.error?.code === -31004], [200, false], one.method);
    }
    for (const [method, status] of [["GET", 405], ["DELETE", 405], ["OPTIONS", 204]]) {
      const init = { method, address, headers: { accept: "text/event-stream" } };
      const answers = await atOnce(2 * BURST, () => sluice.fetch("/mcp", init));
      assert.ok(answers.every((answer) => answer.status === status), method);
    }
  });

  test("the limit eats the handshake, or its second half (awslabs/mcp#2949, shopware#18906)", async () => {
    const address = "192.0.2.14";
    const handshake = async () => {
      const answers = [await sluice.mcp(INITIALIZE, { address }), await sluice.mcp(INITIALIZED, { address })];
      assert.deepEqual(answers.map(({ status }) => status), [200, 202]);
    };
    await atOnce(30, handshake);
    assert.deepEqual(await status(sluice, address), { limit: BURST, remaining: BURST, nextTokenMs: 0 });
    await drain(sluice, address);
    await atOnce(30, handshake);
  });

  test("a limiter round the endpoint counts requests, whatever they are (fastapi_mcp#81)", async () => {
    const address = "192.0.2.15";
    const free = [request("tools/list"), request("ping"), INITIALIZED, message("no_such_tool", {}), message("echo", {})];
    await atOnce(10 * BURST, (index) => sluice.mcp(free[index % free.length], { address }));
    const [count, refused] = await drain(sluice, address);
    assert.equal(count, BURST);
    assert.equal(refused.status, 429);
  });
});

describe("of an object that can't answer its first question", () => {
  const sluice = worker({ vars: { ...SLOW, MCP_FAIL: "open" }, faults: { RateLimiter: "once:throws:out of order" } });
  const FAILED = 'mcp_limiter_failures_total{policy="open"}';

  test("a call that runs unlimited looks like one that was admitted (worldmonitor#8356, Code2Flow#11)", async () => {
    const [unlimited, admitted] = [await call(sluice, "192.0.2.1"), await call(sluice, "192.0.2.1")];
    assert.ok(ran(unlimited) && ran(admitted));
    assert.deepEqual([left(unlimited), left(admitted)], [undefined, BURST - 1]);
    assert.deepEqual([unlimited, admitted].map(({ headers }) => headers.has("ratelimit")), [false, true]);
    const lines = await sluice.logged(/limiter_failure/);
    assert.equal(lines.length, 1);
    const { cause, policy } = JSON.parse(lines[0].message);
    assert.deepEqual([lines[0].level, /out of order/.test(cause), policy], ["error", true, "open"]);
    assert.equal((await metrics(sluice))[FAILED], 1);
  });

  test("allowed, limited and failed open aren't told apart, and each wait is the same (maple PR #679)", async () => {
    const waits = [];
    const changed = await counted(sluice, async () => {
      const [count, refused] = await drain(sluice, "192.0.2.2");
      assert.equal(count, 1 + BURST, "the first was free");
      const dear = await call(sluice, "192.0.2.2", "search_docs", { query: "bucket" });
      waits.push(...[refused, dear].map((answer) => refusalOf(answer).retryAfterMs));
    });
    const limited = (tool) => `mcp_rate_limited_total{tool="${tool}",reason="rate",allowance="caller"}`;
    assert.equal(changed['mcp_tool_calls_total{tool="echo",outcome="ok"}'], 1 + BURST);
    assert.deepEqual([changed[FAILED], changed[limited("echo")], changed[limited("search_docs")]], [1, 1, 1]);
    assert.ok(waits[1] > waits[0] + 900_000, `${waits}: two tokens take a thousand seconds longer than one`);
  });
});

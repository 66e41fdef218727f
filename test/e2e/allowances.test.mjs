// Everything that can limit a call beside the caller's bucket: buckets, quotas and slots, of callers and of single tools, and spacing.
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
  status,
  until,
} from "./calls.mjs";
import { start, worker } from "./harness.mjs";

const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "60000" };
const BATCHES = { "mcp-protocol-version": "2025-03-26" };

const batch = (sluice, address, messages) => sluice.mcp(messages, { address, headers: BATCHES });
const calls = (count, name = "echo") => Array.from({ length: count }, (_, index) => message(name, undefined, index + 1));

/** The row that a caller's object keeps. */
const row = async (sluice, address) => JSON.parse((await sluice.stored(nameOf(address))).row ?? "null");

const midnight = () => Math.ceil((86_400_000 - (Date.now() % 86_400_000)) / 1_000);

describe("a bucket of a tool's own", () => {
  const sluice = worker({
    vars: { ...SLOW, MCP_TOOLS: { echo: { rate: "0.002", burst: 3 }, list_decisions: { cost: 2, rate: "0.002", burst: 5 } } },
  });

  test("refuses that tool, names itself, and leaves the caller's bucket as it was", async () => {
    for (let count = 0; count < 3; count += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
    const refused = await call(sluice, "192.0.2.1");
    const { retryAfterMs, ...rest } = refusalOf(refused);
    assert.deepEqual(rest, { reason: "rate", allowance: "tool", tool: "echo" });
    assert.ok(retryAfterMs > 490_000 && retryAfterMs <= 500_000, `${retryAfterMs}`);
    assert.equal(refused.result.content[0].text, `Rate limit reached for echo. Wait ${Math.ceil(retryAfterMs / 1_000)} seconds before the next tool call.`);
    assert.deepEqual({ ...(await status(sluice, "192.0.2.1")), nextTokenMs: 0 }, { limit: 30, remaining: 27, nextTokenMs: 0 });
    assert.ok(ran(await call(sluice, "192.0.2.1", "read_decision", { id: "0001" })), "another tool still runs");
    assert.ok(ran(await call(sluice, "192.0.2.2")), "another caller too");
  });

  test("is charged a call's cost, and told where it is the nearest limit", async () => {
    const first = await call(sluice, "192.0.2.3", "list_decisions");
    assert.deepEqual({ ...first.result._meta["sluice/allowance"], nextTokenMs: 0 }, { limit: 5, remaining: 3, nextTokenMs: 0 });
    assert.match(first.headers.get("ratelimit"), /^"tools-call:list_decisions";r=3;t=\d+$/);
    assert.equal(first.headers.get("ratelimit-policy"), '"tools-call";q=30;w=30000, "tools-call:list_decisions";q=5;w=2500');
    assert.ok(ran(await call(sluice, "192.0.2.3", "list_decisions")));
    assert.equal(refusalOf(await call(sluice, "192.0.2.3", "list_decisions")).allowance, "tool");
  });

  test("a call that both refuse tells the longer wait", async () => {
    await drain(sluice, "192.0.2.4");
    const { allowance, retryAfterMs } = refusalOf(await call(sluice, "192.0.2.4"));
    assert.deepEqual([allowance, retryAfterMs > 490_000], ["tool", true], "a token of the caller's comes in 1000 s, but 27 are there");
  });

  test("of 100 calls at once as many run as it holds", async () => {
    const answers = await atOnce(100, () => call(sluice, "192.0.2.5"));
    allRanOrRefused(answers);
    assert.equal(countRan(answers), 3);
    assert.equal((await status(sluice, "192.0.2.5")).remaining, 27);
  });
});

describe("a quota", () => {
  const sluice = worker({
    vars: { ...SLOW, MCP_RATE_LIMIT_BURST: "100", MCP_QUOTA: "5/day", MCP_TOOLS: { list_decisions: { quota: "2/month", cost: 3 } } },
  });

  test("counts calls, whatever they cost, and refuses until the window's end", async () => {
    for (let count = 0; count < 5; count += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
    const before = midnight();
    const refused = await call(sluice, "192.0.2.1");
    const after = midnight();
    const { retryAfterMs, ...rest } = refusalOf(refused);
    assert.deepEqual(rest, { reason: "quota", allowance: "caller", tool: "echo" });
    const seconds = Math.ceil(retryAfterMs / 1_000);
    assert.ok(seconds <= before && seconds >= after, `${seconds} s, midnight is in ${after} s`);
    assert.equal(refused.result.content[0].text, `Quota of 5 calls a day used up. Wait ${seconds} seconds before the next tool call.`);
    assert.equal((await row(sluice, "192.0.2.1")).debt <= 5_000_000, true, "the refused call was charged nowhere");
  });

  test("is told by rate_limit_status, beside whatever is nearest, and in the header fields", async () => {
    const answer = await call(sluice, "192.0.2.2");
    assert.deepEqual({ ...answer.result._meta["sluice/allowance"], nextTokenMs: 0 }, { limit: 5, remaining: 4, nextTokenMs: 0 });
    assert.match(answer.headers.get("ratelimit"), /^"daily";r=4;t=\d+$/);
    assert.equal(answer.headers.get("ratelimit-policy"), '"tools-call";q=100;w=100000, "daily";q=5;w=86400');
    const told = await status(sluice, "192.0.2.2");
    assert.deepEqual([told.limit, told.remaining], [5, 4]);
    assert.deepEqual({ ...told.quota, resetMs: 0 }, { limit: 5, remaining: 4, window: "day", resetMs: 0 });
  });

  test("of a tool is counted for that tool, and names it", async () => {
    for (let count = 0; count < 2; count += 1) assert.ok(ran(await call(sluice, "192.0.2.3", "list_decisions")));
    const refused = await call(sluice, "192.0.2.3", "list_decisions");
    const { reason, allowance } = refusalOf(refused);
    assert.deepEqual([reason, allowance], ["quota", "tool"]);
    assert.match(refused.result.content[0].text, /^Quota of 2 calls of list_decisions a month used up\. Wait \d+ seconds/);
    assert.ok(ran(await call(sluice, "192.0.2.3")), "another tool still runs");
  });

  test("of 50 calls at once as many run as it allows", async () => {
    const answers = await atOnce(50, () => call(sluice, "192.0.2.4"));
    allRanOrRefused(answers, "quota");
    assert.equal(countRan(answers), 5);
  });

  test("survives eviction, a deploy and a change of its number, and keeps its object until the window ends", async () => {
    for (let count = 0; count < 3; count += 1) await call(sluice, "192.0.2.6");
    await sluice.evict(nameOf("192.0.2.6"));
    assert.equal((await status(sluice, "192.0.2.6")).quota.remaining, 2);
    const { alarm } = await sluice.stored(nameOf("192.0.2.6"));
    assert.equal(alarm % 86_400_000, 0, "the alarm is set to midnight");
    await sluice.update({ vars: { MCP_QUOTA: "4/day" } });
    assert.equal((await status(sluice, "192.0.2.6")).quota.remaining, 1);
    await sluice.update({ vars: { MCP_QUOTA: "2/day" } });
    assert.equal(refusalOf(await call(sluice, "192.0.2.6")).reason, "quota");
    await sluice.update({ vars: { MCP_QUOTA: "5/day" } });
    assert.equal((await status(sluice, "192.0.2.6")).quota.remaining, 2);
  });
});

test("when bucket and quota are both used up the longer wait is told, every time", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0.1", MCP_RATE_LIMIT_BURST: "3", MCP_QUOTA: "3/day" } });
  for (let count = 0; count < 3; count += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
  for (let count = 0; count < 3; count += 1) assert.equal(refusalOf(await call(sluice, "192.0.2.1")).reason, "quota");
});

test("the object of a caller with a quota is emptied when the window has ended", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "100", MCP_QUOTA: "5/minute" } });
  // Not so close to the end of a minute that the next one begins in between.
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 10_000) await pass(left);
  assert.ok(ran(await call(sluice, "192.0.2.1")));
  assert.equal((await row(sluice, "192.0.2.1")).quotas[0].calls, 1);
  const emptied = async () => (await sluice.stored(nameOf("192.0.2.1"))).all.length === 0;
  await until(emptied, "nothing is stored any more", 75_000);
  assert.equal((await status(sluice, "192.0.2.1")).quota.remaining, 5);
});

describe("slots", () => {
  const sluice = worker({
    fixtures: true,
    main: "test/e2e/faults/direct.mjs",
    vars: {
      ...SLOW,
      MCP_RATE_LIMIT_BURST: "100",
      MCP_MAX_IN_FLIGHT: "3",
      MCP_LEASE_SECONDS: "20",
      MCP_TOOLS: { test_slow: { max_in_flight: 2, status_tool: "rate_limit_status", poll_seconds: 7 } },
    },
  });
  const slow = (address, ms, init) => sluice.mcp(message("test_slow", { ms }), { address, ...init });
  const leases = async (address) => (await row(sluice, address))?.leases?.length ?? 0;

  test("a call more than may run is refused as busy, charged nothing, and told where to ask", async () => {
    const running = [slow("192.0.2.1", 4_000), slow("192.0.2.1", 4_000)];
    await until(async () => (await leases("192.0.2.1")) === 2, "two calls run");
    const refused = await slow("192.0.2.1", 0);
    assert.deepEqual(refusalOf(refused), { reason: "busy", allowance: "tool", tool: "test_slow", retryAfterMs: 7_000 });
    assert.equal(
      refused.result.content[0].text,
      "2 calls of test_slow are already running, and no more are allowed. Ask rate_limit_status how they are doing. " +
        "Wait 7 seconds before the next tool call.",
    );
    assert.equal(refused.headers.get("ratelimit-policy"), '"tools-call";q=100;w=100000, "concurrency";q=3;qu="concurrent-requests", "concurrency:test_slow";q=2;qu="concurrent-requests"');
    assert.ok(ran(await call(sluice, "192.0.2.1")), "another tool has a slot left");
    assert.ok(ran(await slow("192.0.2.2", 0)), "another caller too");
    assert.deepEqual((await Promise.all(running)).map(ran), [true, true]);
    await until(async () => (await leases("192.0.2.1")) === 0, "the slots came back");
    assert.ok(ran(await slow("192.0.2.1", 0)), "and can be taken again");
    assert.equal((await row(sluice, "192.0.2.1")).debt <= 4_000_000, true, "the refused call was charged nowhere");
  });

  test("of a caller hold for all its tools together", async () => {
    const running = [slow("192.0.2.3", 4_000), sluice.mcp(message("test_slow", { ms: 4_000 }), { address: "192.0.2.3" })];
    await until(async () => (await leases("192.0.2.3")) === 2, "two calls run");
    const [one, other] = await Promise.all([call(sluice, "192.0.2.3"), batch(sluice, "192.0.2.3", calls(2))]);
    assert.ok(ran(one) || refusalOf(one)?.reason === "busy");
    assert.deepEqual(refusalOf(other.json[0]), { reason: "busy", allowance: "caller", tool: "echo", retryAfterMs: 5_000 });
    assert.match(other.json[0].result.content[0].text, /^[23] calls are already running, and no more are allowed\. Wait 5 seconds/);
    await Promise.all(running);
  });

  test("of 30 calls at once never more than may run do, and none is left taken", async () => {
    const answers = await atOnce(30, () => slow("192.0.2.4", 300));
    allRanOrRefused(answers, "busy");
    assert.ok(countRan(answers) >= 2, `${countRan(answers)} ran`);
    await until(async () => (await leases("192.0.2.4")) === 0, "the slots came back");
  });

  test("a client that goes away gives its slot back before its call is over", async () => {
    // The call ends long after the wait for its slot would have.
    const waits = new AbortController();
    // It leaves once the call runs, also where that takes a while.
    const headers = { "test-client-leaves": "5000" };
    const left = slow("192.0.2.5", 60_000, { headers, signal: waits.signal }).catch((error) => error.name);
    await until(async () => (await leases("192.0.2.5")) === 1, "the call runs");
    await until(async () => (await leases("192.0.2.5")) === 0, "the slot came back");
    waits.abort();
    assert.equal(await left, "AbortError", "the tool was still at work");
  });

  test("a client that breaks the connection gives its slot back when the call is over, at the latest", async () => {
    const client = new AbortController();
    const left = slow("192.0.2.7", 3_000, { signal: client.signal }).catch((error) => error.name);
    await until(async () => (await leases("192.0.2.7")) === 1, "the call runs");
    client.abort();
    assert.equal(await left, "AbortError");
    await until(async () => (await leases("192.0.2.7")) === 0, "the slot came back");
  });

  test("an isolate that dies with its calls gives the slots back when the lease runs out", async () => {
    const lost = slow("192.0.2.6", 60_000).catch(() => undefined);
    await until(async () => (await leases("192.0.2.6")) === 1, "the call runs");
    const { until: runsOut } = (await row(sluice, "192.0.2.6")).leases[0];
    // A deploy: the isolate goes, and its memory with it.
    await sluice.update({ vars: { MCP_MAX_IN_FLIGHT: "1" } });
    await lost;
    const refused = await slow("192.0.2.6", 0);
    if (!ran(refused)) assert.equal(refusalOf(refused).reason, "busy", refused.text);
    await pass(Math.max(0, runsOut / 1_000 - Date.now()) + 50);
    assert.ok(ran(await slow("192.0.2.6", 0)), "the lease has run out");
  });
});

describe("a batch is refused whole at every one of its allowances", () => {
  const limits = {
    "the caller's bucket": [{ MCP_RATE_LIMIT_BURST: "10" }, /^This batch costs 25 tokens and the bucket holds 10\. It can never run\.$/, "caller"],
    "a tool's bucket": [
      { MCP_TOOLS: { echo: { burst: 10 } } },
      /^This batch costs 25 tokens and the bucket holds 10\. It can never run\.$/,
      "tool",
    ],
    "the caller's quota": [{ MCP_QUOTA: "10/day" }, /^This batch makes 25 calls and the quota is 10 calls a day\. It can never run\.$/, "caller"],
    "a tool's quota": [
      { MCP_TOOLS: { echo: { quota: "10/day" } } },
      /^This batch makes 25 calls of echo and the quota is 10 calls a day\. It can never run\.$/,
      "tool",
    ],
    "the caller's slots": [{ MCP_MAX_IN_FLIGHT: "10" }, /^This batch makes 25 calls and at most 10 can run at the same time\. It can never run\.$/, "caller"],
    "a tool's slots": [
      { MCP_TOOLS: { echo: { max_in_flight: 10 } } },
      /^This batch makes 25 calls of echo and at most 10 can run at the same time\. It can never run\.$/,
      "tool",
    ],
    spacing: [
      { MCP_TOOLS: { echo: { min_gap_ms: 200 } } },
      /^This batch makes 25 calls of echo and the last would start after more than 2000 ms\. It can never run\.$/,
      "spacing",
    ],
  };

  for (const [name, [vars, text, allowance]] of Object.entries(limits)) {
    test(name, async () => {
      await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0.001", MCP_RATE_LIMIT_BURST: "100", ...vars } });
      const { json } = await batch(sluice, "192.0.2.1", calls(25));
      assert.equal(json.length, 25);
      for (const answer of json) {
        assert.deepEqual(refusalOf(answer), { reason: "capacity", allowance, tool: "echo" });
        assert.match(answer.result.content[0].text, text);
      }
      assert.equal(await row(sluice, "192.0.2.1"), null, "nothing was charged anywhere");
      assert.deepEqual(await sluice.databases(), []);
      const some = await batch(sluice, "192.0.2.1", calls(5));
      assert.equal(countRan(some.json.map((answer) => ({ status: 200, ...answer }))), 5, "what fits still runs");
    });
  }
});

describe("spacing", () => {
  const gap = 400;
  const sluice = worker({
    vars: { MCP_RATE_LIMIT: "0.001", MCP_MAX_WAIT_MS: "900", MCP_TOOLS: { echo: { min_gap_ms: gap }, list_decisions: { min_gap_ms: 60_000 } } },
  });

  test("calls get their turns across all callers, and one whose turn is too far off is refused with the wait", async () => {
    // The places are 0, 400 and 800 ms from now; the next is beyond 900.
    const started = performance.now();
    const answers = await atOnce(6, async (index) => {
      const answer = await call(sluice, `192.0.2.${index + 1}`);
      return { ...answer, after: performance.now() - started };
    });
    const elapsed = performance.now() - started;
    const ranOnes = answers.filter(ran).sort((one, other) => one.after - other.after);
    const most = 3 + Math.ceil(elapsed / gap);
    assert.ok(ranOnes.length >= 3 && ranOnes.length <= most, `${ranOnes.length} ran in ${elapsed} ms`);
    assert.ok(ranOnes.at(2).after >= 2 * gap - 50, "the third waited for its turn");
    for (const answer of answers.filter((answer) => !ran(answer))) {
      const { retryAfterMs, ...rest } = refusalOf(answer);
      assert.deepEqual(rest, { reason: "rate", allowance: "spacing", tool: "echo" });
      assert.ok(retryAfterMs >= 1 && retryAfterMs <= gap, `${retryAfterMs}`);
    }
  });

  test("a refused call holds no place, and what it was charged comes back", async () => {
    assert.ok(ran(await call(sluice, "198.51.100.1", "list_decisions")));
    const refused = await call(sluice, "198.51.100.2", "list_decisions");
    const { allowance, retryAfterMs } = refusalOf(refused);
    assert.equal(allowance, "spacing");
    assert.ok(retryAfterMs > 50_000 && retryAfterMs <= 59_100, `${retryAfterMs}: a turn, less what it may wait`);
    await until(async () => ((await row(sluice, "198.51.100.2"))?.debt ?? 0) < 500_000, "the token came back");
    const again = refusalOf(await call(sluice, "198.51.100.3", "list_decisions"));
    assert.ok(again.retryAfterMs <= retryAfterMs, "the refused call held no place");
  });
});

test("who is refused by spacing and waits as long as it was told runs, with its token back", async () => {
  await using sluice = await start({
    vars: { MCP_RATE_LIMIT: "0.001", MCP_RATE_LIMIT_BURST: "1", MCP_MAX_WAIT_MS: "200", MCP_REFUSAL: "http", MCP_TOOLS: { echo: { min_gap_ms: 2_000 } } },
  });
  assert.ok(ran(await call(sluice, "192.0.2.1")));
  const refused = await call(sluice, "192.0.2.2");
  assert.deepEqual([refused.status, refused.error.data.allowance], [429, "spacing"]);
  assert.equal(refused.headers.get("retry-after"), `${Math.ceil(refused.error.data.retryAfterMs / 1_000)}`);
  assert.equal(refused.headers.get("ratelimit-policy"), '"tools-call";q=1;w=1000, "spacing:echo";q=1;w=2');
  await pass(refused.error.data.retryAfterMs);
  const again = await call(sluice, "192.0.2.2");
  assert.ok(ran(again), again.text);
});

test("with slots alone rate_limit_status has nothing to tell, and says so", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0", MCP_MAX_IN_FLIGHT: "2" } });
  assert.deepEqual(await status(sluice, "192.0.2.1"), { limit: null, remaining: null, nextTokenMs: 0 });
});

test("a free tool with slots of its own leaves the caller's alone", async () => {
  await using sluice = await start({
    fixtures: true,
    vars: { MCP_RATE_LIMIT: "0.001", MCP_MAX_IN_FLIGHT: "1", MCP_TOOLS: { test_slow: { cost: 0, max_in_flight: 2 } } },
  });
  const running = sluice.mcp(message("test_slow", { ms: 3_000 }), { address: "192.0.2.1" });
  await until(async () => (await row(sluice, "192.0.2.1"))?.leases?.length === 1, "it runs");
  assert.ok(ran(await call(sluice, "192.0.2.1")));
  assert.ok(ran(await running));
});

test("what each kind of call costs, in questions and rows", async () => {
  const cost = async (vars, act) => {
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0.001", ...vars } });
    await act(sluice, 0);
    const before = await metrics(sluice);
    await act(sluice, 1);
    // What goes back goes after the answer.
    const read = (all, name) => all[`mcp_limiter_${name}_total`] - before[`mcp_limiter_${name}_total`];
    await pass(1_500);
    const all = await metrics(sluice);
    return [read(all, "questions"), read(all, "rows_written")];
  };
  const one = (sluice) => call(sluice, "192.0.2.1");
  assert.deepEqual(await cost({}, one), [1, 1], "a bucket alone");
  assert.deepEqual(await cost({ MCP_QUOTA: "9/day", MCP_TOOLS: { echo: { burst: 9, quota: "9/day" } } }, one), [1, 1], "quotas and tools' buckets");
  assert.deepEqual(await cost({ MCP_MAX_IN_FLIGHT: "9" }, one), [2, 2], "slots: taken, and given back");
  const spaced = { MCP_MAX_WAIT_MS: "10000", MCP_TOOLS: { echo: { min_gap_ms: 3_000 } } };
  assert.deepEqual(await cost(spaced, one), [2, 2], "spacing");
});

test("with buckets off quotas and slots still hold, and without any of them no object is asked", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0", MCP_QUOTA: "3/day" } });
  const answers = await atOnce(40, () => call(sluice, "192.0.2.1"));
  allRanOrRefused(answers, "quota");
  assert.equal(countRan(answers), 3);
  const questions = async () => (await metrics(sluice)).mcp_limiter_questions_total;
  assert.equal(await questions(), 40);
  await sluice.update({ vars: { MCP_QUOTA: "" } });
  const more = await atOnce(40, () => call(sluice, "192.0.2.1"));
  assert.equal(countRan(more), 40);
  assert.equal(await questions(), 40, "those of the quota");
});

test("as HTTP a used up quota is 429 and busy is 503, with Retry-After", async () => {
  await using sluice = await start({
    fixtures: true,
    vars: { MCP_REFUSAL: "http", MCP_RATE_LIMIT: "0.001", MCP_QUOTA: "2/day", MCP_MAX_IN_FLIGHT: "1" },
  });
  const running = sluice.mcp(message("test_slow", { ms: 3_000 }), { address: "192.0.2.1" });
  await until(async () => (await row(sluice, "192.0.2.1"))?.leases?.length === 1, "it runs");
  const busy = await call(sluice, "192.0.2.1");
  assert.deepEqual([busy.status, busy.error.code, busy.error.data.reason], [503, -31004, "busy"]);
  assert.equal(busy.headers.get("retry-after"), "5");
  assert.ok(ran(await running));
  await until(async () => ran(await call(sluice, "192.0.2.1")), "the slot came back");
  const used = await until(async () => {
    const answer = await call(sluice, "192.0.2.1");
    return answer.status === 429 && answer;
  }, "the quota is used up");
  assert.equal(used.error.data.reason, "quota");
  assert.ok(Number(used.headers.get("retry-after")) <= midnight() + 1);
});

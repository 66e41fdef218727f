// What is counted, where it is shown, and what a call costs in questions and rows: told by the Worker itself.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { atOnce, call, countRan, drain, message, metrics, nameOf, ran, refusalOf, request, until } from "./calls.mjs";
import { start } from "./harness.mjs";

const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "60000" };

const stats = async (sluice, init) => (await sluice.fetch("/stats", init)).json();

// What changed in all metrics while `work` ran.
async function counted(sluice, work) {
  const before = await metrics(sluice);
  await work();
  const after = await metrics(sluice);
  const changed = Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]);
  return Object.fromEntries(changed.filter(([, change]) => change !== 0));
}

const QUESTIONS = "mcp_limiter_questions_total";
const ROWS = "mcp_limiter_rows_written_total";
const REMEMBERED = "mcp_remembered_refusals_total";

// Shown from the start, so that the first failure is seen as a change.
const NO_FAILURES = Object.fromEntries([
  ...["open", "insured", "closed"].map((policy) => [`mcp_limiter_failures_total{policy="${policy}"}`, 0]),
  ["mcp_unknown_plans_total", 0],
  ["mcp_unchecked_calls_total", 0],
]);

describe("what is counted", () => {
  let sluice;
  before(async () => (sluice = await start({ vars: SLOW })));
  after(() => sluice?.close());

  test("nothing yet", async () => {
    assert.deepEqual(await stats(sluice), { total: 0, tools: {} });
    assert.deepEqual(await metrics(sluice), { ...NO_FAILURES, [QUESTIONS]: 0, [ROWS]: 0, [REMEMBERED]: 0 });
  });

  test("calls that ran by tool and outcome; refused, invalid and unknown ones apart from them", async () => {
    const address = "192.0.2.1";
    await call(sluice, address, "read_decision", { id: "9999" });
    await call(sluice, address, "search_docs", { query: "bucket" });
    await call(sluice, address, "echo", {});
    await call(sluice, address, "echo", { text: 7 });
    await call(sluice, address, "no_such_tool", {});
    await call(sluice, address, "mcp_tool\"} 1\nforged", {});
    const [echoes, refused] = await drain(sluice, address);
    assert.equal(echoes, 27);
    assert.equal(refusalOf(refused).reason, "rate");
    await call(sluice, address, "search_docs", { query: "bucket" });
    await call(sluice, address, "rate_limit_status");
    for (const method of ["ping", "tools/list", "resources/list"]) await sluice.mcp(request(method), { address });

    assert.deepEqual(await stats(sluice), {
      total: 30,
      tools: {
        echo: { calls: 27, errors: 0 },
        rate_limit_status: { calls: 1, errors: 0 },
        read_decision: { calls: 1, errors: 1 },
        search_docs: { calls: 1, errors: 0 },
      },
    });
    const { [QUESTIONS]: questions, [ROWS]: rows, [REMEMBERED]: remembered, ...rest } = await metrics(sluice);
    // printf address:192.0.2.1 | sha256sum begins with 6.
    const limited = (tool) => `mcp_rate_limited_total{tool="${tool}",reason="rate",allowance="caller",caller="address",bucket="6"}`;
    assert.deepEqual(rest, {
      ...NO_FAILURES,
      'mcp_tool_calls_total{tool="echo",outcome="ok"}': 27,
      'mcp_tool_calls_total{tool="rate_limit_status",outcome="ok"}': 1,
      'mcp_tool_calls_total{tool="read_decision",outcome="error"}': 1,
      'mcp_tool_calls_total{tool="search_docs",outcome="ok"}': 1,
      [limited("echo")]: 1,
      [limited("search_docs")]: 1,
      'mcp_invalid_calls_total{tool="echo"}': 2,
      'mcp_invalid_calls_total{tool="unknown"}': 2,
    });
    assert.ok(questions >= 29 && rows >= 29 && remembered <= 2);
  });

  test("the text is Prometheus's, and no cache keeps it", async () => {
    const response = await sluice.fetch("/metrics");
    assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert.equal(response.headers.get("cache-control"), "no-store");
    const text = await response.text();
    for (const name of ["mcp_tool_calls_total", "mcp_rate_limited_total", "mcp_invalid_calls_total", QUESTIONS, ROWS, REMEMBERED]) {
      assert.match(text, new RegExp(`^# HELP ${name} .+$`, "m"));
      assert.match(text, new RegExp(`^# TYPE ${name} counter$`, "m"));
    }
    for (const line of text.split("\n").filter(Boolean)) assert.match(line, /^(# (HELP|TYPE) \w+ .+|\w+(\{[^{}]*\})? \d+)$/);
  });

  test("no identity is in what is shown: no address, no key, no argument", async () => {
    const callers = ["203.0.113.77", "2001:db8:77::1"];
    for (const address of callers) {
      await call(sluice, address, "echo", { text: "a secret of the caller" });
      await drain(sluice, address);
      await call(sluice, address, "a_tool_named_secret", {});
    }
    const shown = (await (await sluice.fetch("/metrics")).text()) + (await (await sluice.fetch("/stats")).text());
    for (const secret of ["203.0.113", "2001:db8", "address:", "secret"]) assert.ok(!shown.includes(secret), secret);
  });

  test("the counts survive eviction of their object", async () => {
    await call(sluice, "192.0.2.9");
    const before = await stats(sluice);
    await sluice.evict("all", "CALL_STATS");
    assert.deepEqual(await stats(sluice), before);
    await call(sluice, "192.0.2.9");
    assert.equal((await stats(sluice)).total, before.total + 1);
  });

  test("and a deploy", async () => {
    await call(sluice, "192.0.2.9");
    const before = await stats(sluice);
    await sluice.update({});
    assert.deepEqual(await stats(sluice), before);
  });
});

describe("what a call costs", () => {
  let sluice;
  before(async () => (sluice = await start({ vars: SLOW })));
  after(() => sluice?.close());

  test("an admitted call: one question and one row, and one row more for the first of a busy period", async () => {
    const ten = async () => {
      for (let i = 0; i < 10; i += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
    };
    const ok = 'mcp_tool_calls_total{tool="echo",outcome="ok"}';
    assert.deepEqual(await counted(sluice, ten), { [ok]: 10, [QUESTIONS]: 10, [ROWS]: 11 });
    assert.deepEqual(await counted(sluice, ten), { [ok]: 10, [QUESTIONS]: 10, [ROWS]: 10 });
  });

  test("a refused call: at most a question, and no row; on remembered debt neither", async () => {
    const address = "192.0.2.2";
    const full = await counted(sluice, () => drain(sluice, address));
    assert.deepEqual([full[QUESTIONS], full[ROWS]], [full[REMEMBERED] ? 30 : 31, 31]);
    const refused = await counted(sluice, async () => {
      for (let i = 0; i < 10; i += 1) assert.ok(!ran(await call(sluice, address)));
    });
    assert.equal(refused[ROWS], undefined);
    assert.equal((refused[QUESTIONS] ?? 0) + (refused[REMEMBERED] ?? 0), 10);
    assert.ok(refused[REMEMBERED] > 0, "the debt that was just heard of is remembered");
  });

  test("a refusal that the object gives itself costs the question alone", async () => {
    const address = "192.0.2.3";
    await drain(sluice, address);
    await sluice.update({});
    const { [QUESTIONS]: questions, [ROWS]: rows, [REMEMBERED]: remembered } = await counted(sluice, () => call(sluice, address));
    assert.deepEqual([questions, rows, remembered], [1, undefined, undefined]);
  });

  test("a batch costs one question and one row, whatever is in it", async () => {
    const address = "192.0.2.4";
    await call(sluice, address);
    const batch = Array.from({ length: 10 }, (_, id) => message("echo", { text: "x" }, id));
    const { [QUESTIONS]: questions, [ROWS]: rows } = await counted(sluice, () => sluice.mcp(batch, { address }));
    assert.deepEqual([questions, rows], [1, 1]);
  });

  test("what is free costs nothing, a status at most a question", async () => {
    const free = await counted(sluice, async () => {
      for (const method of ["ping", "tools/list"]) await sluice.mcp(request(method), { address: "192.0.2.5" });
      await call(sluice, "192.0.2.5", "no_such_tool", {});
      await call(sluice, "192.0.2.5", "echo", {});
    });
    assert.deepEqual(Object.keys(free).sort(), ['mcp_invalid_calls_total{tool="echo"}', 'mcp_invalid_calls_total{tool="unknown"}']);
    const status = await counted(sluice, () => call(sluice, "192.0.2.6", "rate_limit_status"));
    assert.deepEqual([status[QUESTIONS], status[ROWS]], [1, undefined]);
    const dear = await counted(sluice, () => sluice.mcp(Array.from({ length: 31 }, (_, id) => message("echo", { text: "x" }, id)), { address: "192.0.2.7" }));
    assert.deepEqual(Object.entries(dear), [
      // printf address:192.0.2.7 | sha256sum begins with 7.
      ['mcp_rate_limited_total{tool="echo",reason="capacity",allowance="caller",caller="address",bucket="7"}', 31],
    ]);
  });
});

describe("how counts flow", () => {
  test("about once a second at most, after the answers, and none is lost", async () => {
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: "1000", MCP_RATE_LIMIT_BURST: "1000" }, faults: { CallStats: "" } });
    const started = performance.now();
    for (let i = 0; i < 300; i += 10) {
      assert.equal(countRan(await atOnce(10, (last) => call(sluice, `192.0.2.${last}`))), 10);
      await sleep(20);
    }
    const total = async () => {
      const [object] = await sluice.databases({ binding: "CALL_STATS" });
      return object?.row === undefined ? 0 : sum(object.row);
    };
    await until(async () => (await total()) >= 300, "all to arrive by themselves");
    assert.equal(await total(), 300);
    const elapsed = (performance.now() - started) / 1_000;
    const flushes = sluice.logs(/^asked CallStats/).length;
    assert.ok(flushes >= 1 && flushes <= Math.ceil(elapsed), `${flushes} in ${elapsed} s`);
    assert.equal((await stats(sluice)).total, 300);
  });

  test("nothing is sent when there is nothing to count", async () => {
    await using sluice = await start({ faults: { CallStats: "" } });
    for (let i = 0; i < 5; i += 1) await sluice.mcp(request("ping"));
    await call(sluice, "192.0.2.1");
    await sluice.logged(/^asked CallStats/);
    await sleep(1_500);
    assert.equal(sluice.logs(/^asked CallStats/).length, 1);
  });

  test("what couldn't be sent is kept and sent with the next", async () => {
    await using sluice = await start({ faults: { CallStats: "once:throws" } });
    await call(sluice, "192.0.2.1");
    await sluice.logged(/stats_failure/);
    await call(sluice, "192.0.2.1");
    assert.equal((await stats(sluice)).total, 2);
  });
});

const sum = (row) => JSON.parse(row).ran.reduce((total, [, count]) => total + count, 0);

describe("MCP_ADMIN_TOKEN", () => {
  const TOKEN = "s3cret-token";
  let sluice;
  before(async () => (sluice = await start({ vars: { MCP_ADMIN_TOKEN: TOKEN } })));
  after(() => sluice?.close());

  for (const path of ["/stats", "/metrics"]) {
    test(`${path} asks for it, and tells nothing without`, async () => {
      for (const authorization of [undefined, "", "Bearer", "Bearer wrong", `Bearer ${TOKEN}x`, `Basic ${TOKEN}`, TOKEN]) {
        const response = await sluice.fetch(path, { headers: authorization === undefined ? {} : { authorization } });
        assert.equal(response.status, 401, `${authorization}`);
        assert.match(response.headers.get("www-authenticate"), /^Bearer/);
        assert.equal(await response.text(), "");
      }
      for (const scheme of ["Bearer", "bearer"]) {
        assert.equal((await sluice.fetch(path, { headers: { authorization: `${scheme} ${TOKEN}` } })).status, 200);
      }
      const query = await sluice.fetch(`${path}?access_token=${TOKEN}`);
      assert.equal(query.status, 401, "nor is one in the address taken");
    });
  }

  test("calls and /healthz don't need it", async () => {
    assert.ok(ran(await call(sluice, "192.0.2.1")));
    assert.equal((await sluice.fetch("/healthz")).status, 200);
  });
});

test("a stats object that fails or hangs neither fails nor delays a call, and says so when it is read", async () => {
  for (const fault of ["throws:boom", "number:500", "answers:nonsense"]) {
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0.001" }, faults: { CallStats: fault } });
    assert.ok(ran(await call(sluice, "192.0.2.1")));
    const read = await sluice.fetch("/stats");
    assert.deepEqual([read.status, await read.json()], [503, { error: "The counts can't be read." }], fault);
    assert.equal((await sluice.fetch("/metrics")).status, 503);
    await sluice.logged(/stats_failure/);
  }
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0.001" }, faults: { CallStats: "hangs" } });
  const read = sluice.fetch("/stats");
  let answered = 0;
  for (let n = 0; n < 10; n += 1) {
    assert.ok(ran(await call(sluice, "192.0.2.1")));
    answered += 1;
  }
  const first = await Promise.race([read.then(() => "stats"), Promise.resolve("calls")]);
  assert.deepEqual([first, answered], ["calls", 10], "ten calls were answered while the counts hung");
  assert.equal((await read).status, 503);
});

// What is counted, and what a call costs: told by the Worker itself.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { atOnce, call, countRan, drain, metrics, ran, refusalOf } from "./calls.mjs";
import { start } from "./harness.mjs";

const vars = { MCP_RATE_LIMIT: "0.001" };
const stats = async (sluice) => (await sluice.fetch("/stats")).json();

/** Questions asked, rows written, calls refused from memory. */
async function costs(sluice) {
  const all = await metrics(sluice);
  const names = ["mcp_limiter_questions_total", "mcp_limiter_rows_written_total", "mcp_remembered_refusals_total"];
  return names.map((name) => all[name]);
}

test("/stats has what ran, and /metrics everything", async () => {
  await using sluice = await start({ vars });
  assert.deepEqual(await stats(sluice), { total: 0, tools: {} });
  const address = "192.0.2.1";
  const [count, refused] = await drain(sluice, address);
  assert.deepEqual([count, refusalOf(refused).reason], [30, "rate"]);
  await call(sluice, "192.0.2.2", "read_decision", { id: "9999" });
  await call(sluice, address, "no_such_tool", {});
  await call(sluice, address, "echo", { text: 7 });
  assert.deepEqual(await stats(sluice), {
    total: 31,
    tools: { echo: { calls: 30, errors: 0 }, read_decision: { calls: 1, errors: 1 } },
  });
  const text = await (await sluice.fetch("/metrics")).text();
  const lines = text.split("\n");
  for (const line of [
    'mcp_tool_calls_total{tool="echo",outcome="ok"} 30',
    'mcp_tool_calls_total{tool="read_decision",outcome="error"} 1',
    'mcp_invalid_calls_total{tool="unknown"} 1',
    'mcp_invalid_calls_total{tool="echo"} 1',
    "mcp_remembered_refusals_total 1",
  ]) {
    assert.ok(lines.includes(line), `${line} is not in\n${text}`);
  }
  assert.match(text, /^mcp_rate_limited_total\{tool="echo",reason="rate",allowance="caller",caller="address",bucket="[0-9a-f]"\} 1$/m);
  assert.ok(!text.includes("192.0.2") && !text.includes("no_such_tool") && !text.includes("hello"), "nothing of the caller's");
});

test("an admitted call costs one question and one row, and the alarm one more in a busy period", async () => {
  await using sluice = await start({ vars });
  for (let n = 0; n < 20; n += 1) await call(sluice, "192.0.2.1");
  assert.deepEqual(await costs(sluice), [20, 21, 0]);
});

test("a refusal writes nothing, and on remembered debt it asks nobody", async () => {
  await using sluice = await start({ vars });
  const address = "192.0.2.1";
  await drain(sluice, address);
  assert.deepEqual(await costs(sluice), [30, 31, 1]);
  await atOnce(20, () => call(sluice, address));
  assert.deepEqual(await costs(sluice), [30, 31, 21]);
  // An isolate that remembers nothing has to ask, and the object writes nothing.
  await sluice.update({ vars: { MCP_MAX_BATCH: "7" } });
  assert.equal(refusalOf(await call(sluice, address)).reason, "rate");
  assert.deepEqual(await costs(sluice), [31, 31, 21]);
});

test("what costs nothing asks nobody, but for the status, which is asked for at most once a second", async () => {
  await using sluice = await start({ vars: { ...vars, MCP_TOOLS: { echo: { cost: 0 } } } });
  for (let n = 0; n < 5; n += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
  assert.deepEqual(await costs(sluice), [0, 0, 0]);
  const started = Date.now();
  for (let n = 0; n < 5; n += 1) await call(sluice, "192.0.2.1", "rate_limit_status", {});
  const [asked, written] = await costs(sluice);
  assert.ok(asked >= 1 && asked <= 1 + (Date.now() - started) / 1_000, `${asked} questions`);
  assert.equal(written, 0);
  assert.deepEqual((await sluice.databases()).flatMap(({ all }) => all), [], "no object stores anything");
});

test("counts flow about once a second, after the answer, and none is lost", async () => {
  await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0" }, faults: { CallStats: "" } });
  const started = Date.now();
  for (let sent = 0; sent < 300; sent += 30) {
    assert.equal(countRan(await atOnce(30, () => call(sluice, "192.0.2.1"))), 30);
    await sleep(100);
  }
  const spent = Date.now() - started;
  // The last flush comes by itself, without anybody reading.
  const added = async () => {
    const lines = await sluice.logged(/asked CallStats/);
    return lines.map(({ message }) => JSON.parse(message.slice(message.indexOf("{"))).ran.reduce((sum, [, count]) => sum + count, 0));
  };
  let sums = await added();
  for (const end = Date.now() + 10_000; sums.reduce((a, b) => a + b, 0) < 300 && Date.now() < end; sums = await added()) await sleep(50);
  assert.equal(sums.reduce((a, b) => a + b, 0), 300);
  assert.ok(sums.length <= 2 + spent / 1_000, `${sums.length} messages in ${spent} ms`);
  assert.equal((await stats(sluice)).total, 300);
});

test("counts outlive the object's memory", async () => {
  await using sluice = await start({ vars });
  await call(sluice, "192.0.2.1");
  assert.equal((await stats(sluice)).total, 1);
  await sluice.evict("all", "CALL_STATS");
  assert.equal((await stats(sluice)).total, 1);
});

test("a stats object that fails or hangs neither fails nor delays a call, and says so when it is read", async () => {
  for (const fault of ["throws:boom", "status:500", "answers:nonsense"]) {
    await using sluice = await start({ vars, faults: { CallStats: fault } });
    assert.ok(ran(await call(sluice, "192.0.2.1")));
    const read = await sluice.fetch("/stats");
    assert.deepEqual([read.status, await read.json()], [503, { error: "The counts can't be read." }], fault);
    assert.equal((await sluice.fetch("/metrics")).status, 503);
    await sluice.logged(/stats_failure/);
  }
  await using sluice = await start({ vars, faults: { CallStats: "hangs" } });
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

test("what couldn't be sent is counted later", async () => {
  await using sluice = await start({ vars, faults: { CallStats: "once:throws:boom" } });
  await call(sluice, "192.0.2.1");
  assert.equal((await sluice.fetch("/stats")).status, 503);
  assert.equal((await stats(sluice)).total, 1);
});

test("with MCP_ADMIN_TOKEN the counts ask for it, and nothing else does", async () => {
  await using sluice = await start({ vars: { MCP_ADMIN_TOKEN: "s3cret" } });
  for (const path of ["/stats", "/metrics"]) {
    for (const authorization of [undefined, "Bearer wrong", "Basic s3cret", "s3cret"]) {
      const refused = await sluice.fetch(path, { headers: authorization ? { authorization } : {} });
      assert.deepEqual([refused.status, refused.headers.get("www-authenticate")], [401, "Bearer"], authorization);
    }
    assert.equal((await sluice.fetch(path, { headers: { authorization: "Bearer s3cret" } })).status, 200);
  }
  assert.equal((await sluice.fetch("/healthz")).status, 200);
  assert.ok(ran(await call(sluice, "192.0.2.1")));
});

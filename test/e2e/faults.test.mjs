// What happens when a caller's object can't answer: the real front, and an object that fails in each way that there is.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { atOnce, call, countRan, drain, message, metrics, ran, refusalOf, status } from "./calls.mjs";
import { start } from "./harness.mjs";

const slow = { MCP_RATE_LIMIT: "0.001", MCP_RATE_LIMIT_BURST: "5" };
const text = (answer) => answer.result.content[0].text;
const UNAVAILABLE = "The rate limiter can't be asked, and echo doesn't run without it. Wait 5 seconds before the next tool call.";

const failing = (fault, policy, vars = {}) =>
  start({ vars: { ...slow, MCP_FAIL: policy, MCP_LIMITER_TIMEOUT_MS: "300", ...vars }, faults: { RateLimiter: fault } });

/** Every way of giving no answer, with what the log says of it; `own` marks those that a flood makes of its own object. */
const FAULTS = [
  { fault: "throws:out of order", cause: /out of order/ },
  { fault: "throws-string", cause: /a string/ },
  { fault: "retryable:Network connection lost", cause: /Network connection lost/ },
  { fault: "number:500", cause: /isn.t text/ },
  { fault: "answers:<html>", cause: /can't be read/ },
  { fault: "answers:{}", cause: /can't be read/ },
  { fault: 'answers:{"admitted":"yes","debt":1,"at":1}', cause: /can't be read/ },
  { fault: 'answers:{"admitted":true,"debt":-1,"at":1}', cause: /can't be read/ },
  { fault: 'answers:{"admitted":true,"debt":1e300,"at":1}', cause: /can't be read/ },
  { fault: 'answers:{"admitted":true,"debt":0,"at":1,"wait":0,"rows":1}', cause: /nonsense/ },
  { fault: 'answers:{"admitted":false,"debt":0,"at":1,"wait":0,"rows":0}', cause: /nonsense/ },
  { fault: 'answers:{"admitted":true,"debt":9007199254740991,"at":1}', cause: /nonsense/ },
  { fault: 'answers:{"admitted":false,"debt":0,"at":1,"wait":5000000,"rows":0}', cause: /nonsense/ },
  { fault: 'answers:{"admitted":false,"debt":5000000,"at":1,"wait":1000000000000000,"rows":0}', cause: /nonsense/ },
  { fault: "throws:Durable Object is overloaded.", cause: /overloaded/, own: true },
  { fault: "overloaded:Too many requests are queued", cause: /overloaded/, own: true },
  { fault: "hangs", cause: /no answer within 300 ms/, own: true },
];

for (const { fault, cause, own } of FAULTS) {
  describe(`an object that ${fault}`, () => {
    test(own ? "leaves it to the isolate's bucket under open" : "lets every call run under open", async () => {
      await using sluice = await failing(fault, "open");
      const answers = await atOnce(8, () => call(sluice, "192.0.2.1"));
      assert.equal(countRan(answers), own ? 5 : 8);
      for (const answer of answers) if (!ran(answer)) assert.equal(refusalOf(answer).reason, "rate");
      const lines = await sluice.logged(/limiter_failure/, { count: 8 });
      assert.equal(lines.length, 8, "one line for each failure");
      for (const { level, message: line } of lines) {
        assert.equal(level, "error");
        assert.match(line, cause);
        assert.equal(JSON.parse(line).policy, own ? "insured" : "open");
        assert.ok(!line.includes("192.0.2") && !line.includes("hello"), line);
      }
      const counted = await metrics(sluice);
      assert.equal(counted[`mcp_limiter_failures_total{policy="${own ? "insured" : "open"}"}`], 8);
      assert.equal(counted.mcp_limiter_questions_total, 8);
    });

    test("leaves it to the isolate's bucket under insured", async () => {
      await using sluice = await failing(fault, "insured");
      const answers = await atOnce(8, () => call(sluice, "192.0.2.1"));
      assert.equal(countRan(answers), 5);
      assert.ok(ran(await call(sluice, "192.0.2.2")), "each caller has a bucket of its own there too");
      const refused = refusalOf(answers.find((answer) => !ran(answer)));
      assert.deepEqual({ ...refused, retryAfterMs: 0 }, { reason: "rate", allowance: "caller", tool: "echo", retryAfterMs: 0 });
      assert.ok(refused.retryAfterMs > 990_000 && refused.retryAfterMs <= 1_000_000, "one token comes in a thousand seconds");
    });

    test("refuses under closed, and says when to come back", async () => {
      await using sluice = await failing(fault, "closed");
      const answer = await call(sluice, "192.0.2.1");
      assert.equal(answer.status, 200);
      assert.equal(text(answer), UNAVAILABLE);
      assert.deepEqual(refusalOf(answer), { reason: "unavailable", allowance: "caller", tool: "echo", retryAfterMs: 5_000 });
      assert.equal(answer.result._meta["sluice/allowance"], undefined, "nobody knows what is left");
      assert.equal((await metrics(sluice))['mcp_limiter_failures_total{policy="closed"}'], 1);
    });
  });
}

test("a tool can have its own policy, and a batch has the strictest of its tools'", async () => {
  const tools = { echo: { fail: "closed" }, list_decisions: { fail: "insured" } };
  await using sluice = await failing("throws:boom", "open", { MCP_TOOLS: tools });
  assert.equal(refusalOf(await call(sluice, "192.0.2.1")).reason, "unavailable");
  assert.ok(ran(await call(sluice, "192.0.2.1", "read_decision", { id: "0001" })));
  const insured = await atOnce(7, () => call(sluice, "192.0.2.2", "list_decisions", {}));
  assert.equal(countRan(insured), 5);
  const batch = [message("read_decision", { id: "0001" }, 1), message("echo", { text: "hello" }, 2)];
  const { json } = await sluice.mcp(batch, { address: "192.0.2.3" });
  assert.deepEqual(json.map((entry) => refusalOf(entry)?.reason), ["unavailable", "unavailable"]);
});

test("refused as HTTP, an unavailable limiter is a 503 with Retry-After", async () => {
  await using sluice = await failing("throws:boom", "closed", { MCP_REFUSAL: "http" });
  const answer = await call(sluice, "192.0.2.1");
  assert.deepEqual([answer.status, answer.headers.get("retry-after"), answer.error.code], [503, "5", -31004]);
  assert.equal(answer.error.message, UNAVAILABLE);
});

test("what costs nothing is never refused, and a status says that it isn't known", async () => {
  await using sluice = await failing("throws:boom", "closed", { MCP_TOOLS: { echo: { cost: 0 } } });
  assert.ok(ran(await call(sluice, "192.0.2.1")));
  const unknown = await call(sluice, "192.0.2.1", "rate_limit_status");
  assert.equal(unknown.result.isError, true);
  assert.match(text(unknown), /can't be asked just now/);
});

for (const fault of ["overloaded", "hangs"]) {
  test(`a flood doesn't get past its own object that ${fault === "hangs" ? "hangs" : "is overloaded"}`, async () => {
    await using sluice = await failing(fault, "open");
    assert.equal(countRan(await atOnce(200, () => call(sluice, "192.0.2.1"))), 5);
  });
}

test("an insured bucket starts from the last debt that was heard of", async () => {
  await using sluice = await start({ vars: { ...slow, MCP_FAIL: "insured" }, faults: { RateLimiter: "until:3:throws:boom" } });
  for (let n = 0; n < 3; n += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
  const [count, refused] = await drain(sluice, "192.0.2.1");
  assert.equal(count, 2, "three of five were known to be used");
  assert.equal(refusalOf(refused).reason, "rate");
});

test("a question is asked once: one that comes too late is neither asked again nor believed", async () => {
  await using sluice = await failing("late:1500", "insured");
  assert.ok(ran(await call(sluice, "192.0.2.1")));
  await sluice.logged(/no answer within 300 ms/);
  const asked = await sluice.logged(/asked RateLimiter/);
  assert.deepEqual(
    asked.map(({ message: line }) => line),
    ['asked RateLimiter {"cost":1000000,"capacity":5000000,"refill":1000}'],
  );
  await sluice.update({ faults: { RateLimiter: "" } });
  assert.equal((await status(sluice, "192.0.2.1")).remaining, 4, "the object heard it all the same");
});

test("a limiter that hangs doesn't hold up what needs no limiter", async () => {
  await using sluice = await failing("hangs", "open", { MCP_LIMITER_TIMEOUT_MS: "5000" });
  const order = [];
  const hanging = call(sluice, "192.0.2.1").then(() => order.push("call"));
  await sluice.mcp({ jsonrpc: "2.0", id: 1, method: "ping" }).then(() => order.push("ping"));
  await sluice.mcp({ jsonrpc: "2.0", id: 1, method: "tools/list" }).then(() => order.push("list"));
  await hanging;
  assert.deepEqual(order, ["ping", "list", "call"]);
});

test("at its bound the isolate's map remembers no one new, and an insured call of a new caller is refused", async () => {
  await using sluice = await failing("throws:boom", "insured");
  const addresses = Array.from({ length: 10_000 }, (_, n) => `10.1.${n >> 8}.${n & 255}`);
  while (addresses.length > 0) {
    const some = addresses.splice(0, 100);
    const answers = await Promise.all(some.map((address) => call(sluice, address)));
    assert.equal(countRan(answers), some.length);
  }
  assert.equal(refusalOf(await call(sluice, "192.0.2.1")).reason, "unavailable");
  assert.ok(ran(await call(sluice, "10.1.0.0")), "the known are still known");
});

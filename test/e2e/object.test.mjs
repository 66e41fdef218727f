// The caller's object: what it keeps, when it forgets, and what it says to other versions of itself and of the front.
//
// After deleteAll the object's file has no table at all, the runtime's own included (`_cf_KV`, `_cf_METADATA`); what remains is the
// file itself, and `__miniflare_do_name`, in which Miniflare writes the name of every object that was ever asked anything.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { allRanOrRefused, atOnce, call, countRan, drain, metrics, nameOf, pass, ran, refusalOf, status, until } from "./calls.mjs";
import { start, worker } from "./harness.mjs";

const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "60000" };
const NOTHING = { all: [], row: undefined, alarm: null };
const DIRECT = "test/e2e/faults/direct.mjs";

/** What the object itself answers: { status, text, json }. */
async function ask(sluice, name, body, path = "/") {
  const query = new URLSearchParams({ name, path });
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const response = await sluice.fetch(`/object?${query}`, { method: "POST", body: text });
  const answer = await response.text();
  return { status: response.status, text: answer, json: response.status === 200 && path === "/" ? JSON.parse(answer) : undefined };
}

const alarm = (sluice, name) => ask(sluice, name, "", "/alarm");

const emptied = (sluice, name) => until(async () => (await sluice.stored(name)).all.length === 0, `${name} to leave nothing`);

describe("a bucket that hardly fills", () => {
  const sluice = worker({ vars: SLOW, main: DIRECT });

  test("the bucket survives eviction of the object", async () => {
    const address = "192.0.2.1";
    for (let left = 29; left > 19; left -= 1) {
      const answer = await call(sluice, address);
      assert.equal(answer.result._meta["sluice/allowance"].remaining, left);
      await sluice.evict(nameOf(address));
    }
    const [count] = await drain(sluice, address);
    assert.equal(count, 20);
  });

  test("an eviction in the middle of a flood lets no call too many through", async () => {
    const address = "192.0.2.2";
    let done = false;
    const flood = atOnce(300, () => call(sluice, address)).finally(() => (done = true));
    let evicted = 0;
    while (!done) {
      // Refused while the object isn't running.
      await sluice.evict(nameOf(address)).then(() => (evicted += 1), () => {});
      await pass(20);
    }
    const answers = await flood;
    assert.ok(evicted > 0, "it was evicted");
    allRanOrRefused(answers);
    assert.equal(countRan(answers), 30);
  });

  test("the alarm is set once in a busy period, for when nothing will be owed", async () => {
    const address = "192.0.2.3";
    await call(sluice, address);
    const first = await sluice.stored(nameOf(address));
    const { debt, at, refill, alarm: due } = JSON.parse(first.row);
    assert.deepEqual([debt, refill], [1_000_000, 1_000]);
    assert.ok(Math.abs(at / 1_000 - Date.now()) < 60_000, "counted now");
    assert.equal(due, at + 1_000_000_000, "one token at 0.001 a second");
    assert.equal(first.alarm, due / 1_000, "an instant of this century, in milliseconds");
    for (let i = 0; i < 9; i += 1) await call(sluice, address);
    const tenth = await sluice.stored(nameOf(address));
    assert.equal(tenth.alarm, first.alarm);
    assert.equal(JSON.parse(tenth.row).alarm, due);
  });

  test("an alarm that comes early, and twice, keeps the debt and comes again when nothing will be owed", async () => {
    const address = "192.0.2.4";
    for (let i = 0; i < 10; i += 1) await call(sluice, address);
    const before = JSON.parse((await sluice.stored(nameOf(address))).row);
    for (let i = 0; i < 2; i += 1) {
      assert.equal((await alarm(sluice, nameOf(address))).status, 200);
      const { row, alarm: set } = await sluice.stored(nameOf(address));
      const after = JSON.parse(row);
      assert.deepEqual({ ...after, alarm: before.alarm }, before);
      assert.equal(after.alarm, before.at + before.debt * 1_000);
      assert.equal(set, Math.ceil(after.alarm / 1_000));
    }
    const [count] = await drain(sluice, address);
    assert.equal(count, 20);
  });

  test("an alarm after the storage is gone does nothing", async () => {
    const name = nameOf("192.0.2.5");
    for (let i = 0; i < 2; i += 1) assert.equal((await alarm(sluice, name)).status, 200);
    assert.deepEqual(await sluice.stored(name), NOTHING);
    const [count] = await drain(sluice, "192.0.2.5");
    assert.equal(count, 30);
  });

  test("an alarm that comes a minute late clears, and comes to nothing the second time", async () => {
    const name = nameOf("192.0.2.6");
    await call(sluice, "192.0.2.6");
    const past = Date.now() * 1_000 - 62_000_000;
    await sluice.store(name, JSON.stringify({ debt: 1_000_000, at: past, refill: 500_000, alarm: past + 2_000_000 }));
    for (let i = 0; i < 2; i += 1) {
      assert.equal((await alarm(sluice, name)).status, 200);
      assert.deepEqual(await sluice.stored(name), NOTHING);
    }
    assert.equal((await call(sluice, "192.0.2.6")).result._meta["sluice/allowance"].remaining, 29);
  });

  test("an alarm that was lost is set anew by the next call", async () => {
    const name = nameOf("192.0.2.7");
    await call(sluice, "192.0.2.7", "rate_limit_status");
    const past = Date.now() * 1_000 - 120_000_000;
    await sluice.store(name, JSON.stringify({ debt: 5_000_000, at: past, refill: 1_000, alarm: past }));
    assert.equal((await sluice.stored(name)).alarm, null);
    await call(sluice, "192.0.2.7");
    const { row, alarm: set } = await sluice.stored(name);
    assert.equal(set, Math.ceil(JSON.parse(row).alarm / 1_000));
    assert.ok(set > Date.now());
  });

  test("refused questions write nothing", async () => {
    const address = "192.0.2.8";
    await drain(sluice, address);
    const full = await sluice.stored(nameOf(address));
    for (let i = 0; i < 5; i += 1) {
      const { json } = await ask(sluice, nameOf(address), { cost: 1_000_000, capacity: 30_000_000, refill: 1_000 });
      assert.deepEqual([json.admitted, json.rows], [false, 0]);
      await call(sluice, address);
      await call(sluice, address, "rate_limit_status");
    }
    assert.deepEqual(await sluice.stored(nameOf(address)), full);
  });

  test("asking for the status alone stores nothing", async () => {
    for (let i = 0; i < 5; i += 1) {
      const { json } = await ask(sluice, nameOf("192.0.2.9"), { cost: 0, capacity: 30_000_000, refill: 1_000 });
      assert.deepEqual([json.admitted, json.debt, json.rows], [true, 0, 0]);
    }
    assert.deepEqual(await status(sluice, "192.0.2.9"), { limit: 30, remaining: 30, nextTokenMs: 0 });
    assert.deepEqual(await sluice.stored(nameOf("192.0.2.9")), NOTHING);
  });
});

describe("after the refill time", () => {
  test("the object has nothing left, and the next call starts from a full bucket", async () => {
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: "1", MCP_RATE_LIMIT_BURST: "3" }, main: DIRECT });
    const name = nameOf("192.0.2.1");
    for (let round = 0; round < 2; round += 1) {
      await drain(sluice, "192.0.2.1");
      assert.notEqual((await sluice.stored(name)).row, undefined);
      await emptied(sluice, name);
      assert.deepEqual(await sluice.stored(name), NOTHING);
      assert.equal((await call(sluice, "192.0.2.1")).result._meta["sluice/allowance"].remaining, 2);
    }
    await emptied(sluice, name);
    assert.deepEqual(await sluice.objects(), [await sluice.id(name)], "its id stays listed");
  });

  test("a longer busy period costs one alarm more, not one a call", async () => {
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: "4" }, main: DIRECT });
    await call(sluice, "192.0.2.1");
    await sluice.mcp(
      Array.from({ length: 8 }, (_, id) => ({
        ...{ jsonrpc: "2.0", id, method: "tools/call" },
        params: { name: "echo", arguments: { text: "x" } },
      })),
      { address: "192.0.2.1" },
    );
    await emptied(sluice, nameOf("192.0.2.1"));
    await sluice.logged(/^alarm$/, { count: 2 });
    await pass(500);
    assert.equal(sluice.logs(/^alarm$/).length, 2);
  });

  test("while alarms go off between the calls, never more run than the elapsed time refills", async () => {
    const [rate, burst] = [20, 2];
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: String(rate), MCP_RATE_LIMIT_BURST: String(burst) }, main: DIRECT });
    const started = performance.now();
    const answers = [];
    // Pauses of several lengths, so that alarms meet calls in every way.
    await atOnce(4, async (lane) => {
      for (let i = 0; performance.now() - started < 5_000; i += 1) {
        answers.push(await call(sluice, "192.0.2.1"));
        if (i % 7 === 0) await pass(20 * lane + (i % 5) * 30);
      }
    });
    const elapsed = (performance.now() - started) / 1_000;
    allRanOrRefused(answers);
    const count = countRan(answers);
    assert.ok(count > burst, `${count} ran: nobody is locked out`);
    assert.ok(count <= burst + elapsed * rate, `${count} ran in ${elapsed} s`);
    assert.ok(sluice.logs(/^alarm$/).length > 0, "alarms went off meanwhile");
    await emptied(sluice, nameOf("192.0.2.1"));
    assert.deepEqual(sluice.logs(/limiter_failure|unreadable_row/), []);
  });
});

describe("versions", () => {
  const sluice = worker({ main: DIRECT });
  // A pinned form: what is on the wire and on disk during a deploy. Change it only with a default for what the other side lacks.
  const QUESTION = '{"cost":1000000,"capacity":30000000,"refill":500000}';

  test("the object answers a question of the version before, and stores the row that it always stored", async () => {
    const admitted = await ask(sluice, "pinned", QUESTION);
    assert.match(admitted.text, /^\{"admitted":true,"debt":1000000,"at":\d{16},"wait":0,"rows":2\}$/);
    const { at } = admitted.json;
    const row = `{"debt":1000000,"at":${at},"refill":500000,"alarm":${at + 2_000_000}}`;
    assert.equal((await sluice.stored("pinned")).row, row);
    const dear = await ask(sluice, "pinned", '{"cost":30000000,"capacity":30000000,"refill":500000}');
    assert.match(dear.text, /^\{"admitted":false,"debt":\d+,"at":\d{16},"wait":\d+,"rows":0\}$/);
    assert.equal(dear.json.debt, 1_000_000 - (dear.json.at - at) / 2);
    assert.equal(dear.json.wait, 2_000_000 - (dear.json.at - at));
  });

  test("a question of a later version is answered, whatever else it asks", async () => {
    const later = await ask(sluice, "later", `${QUESTION.slice(0, -1)},"quota":{"limit":5},"lease":null}`);
    assert.deepEqual([later.json.admitted, later.json.debt], [true, 1_000_000]);
  });

  test("a row of the version before is read, and one of a later version too", async () => {
    const [now, slow] = [Date.now() * 1_000, '{"cost":1000000,"capacity":30000000,"refill":1000}'];
    const rows = {
      plain: `{"debt":28500000,"at":${now},"refill":1000,"alarm":${now + 10_000_000}}`,
      "without its alarm": `{"debt":28500000,"at":${now},"refill":1000}`,
      later: `{"debt":28500000,"at":${now},"refill":1000,"alarm":0,"quota":{"used":5},"leases":[]}`,
    };
    for (const [kind, row] of Object.entries(rows)) {
      await ask(sluice, kind, '{"cost":0,"capacity":30000000,"refill":1000}');
      await sluice.store(kind, row);
      assert.equal((await ask(sluice, kind, slow)).json.admitted, true, kind);
      assert.equal((await ask(sluice, kind, slow)).json.admitted, false, kind);
      if (kind !== "plain") assert.notEqual((await sluice.stored(kind)).alarm, null, `${kind}: the alarm is set`);
    }
  });

  test("a question that can't be read is refused and changes nothing", async () => {
    await ask(sluice, "kept", QUESTION);
    const kept = await sluice.stored("kept");
    const nonsense = [
      ...["", "null", "[]", "{", '"x"', "{}", '{"cost":1000000}', '{"cost":-1,"capacity":30000000,"refill":500000}'],
      ...['{"cost":1.5,"capacity":30000000,"refill":500000}', '{"cost":"1","capacity":30000000,"refill":500000}'],
      ...['{"cost":1,"capacity":0,"refill":500000}', '{"cost":1,"capacity":30000000,"refill":0}'],
      ...['{"cost":1,"capacity":18446744073709551615,"refill":1}', '{"cost":1,"capacity":18446744073709551616,"refill":1}'],
      "[".repeat(100_000),
    ];
    for (const text of nonsense) assert.equal((await ask(sluice, "kept", text)).status, 500, text.slice(0, 60));
    const never = await ask(sluice, "kept", '{"cost":18446744073709551615,"capacity":30000000,"refill":500000}');
    assert.deepEqual([never.json.admitted, never.json.wait], [false, 0]);
    assert.deepEqual(await sluice.stored("kept"), kept);
  });
});

describe("the front", () => {
  test("asks as it always asked, and takes the answer of a later object", async () => {
    const answer = { admitted: true, debt: 3_000_000, at: 1_796_000_000_000_000, wait: 0, rows: 1, quota: { left: 5 } };
    await using sluice = await start({ faults: { RateLimiter: `answers:${JSON.stringify(answer)}` } });
    const { result } = await call(sluice, "192.0.2.1");
    assert.deepEqual([result.isError, result._meta["sluice/allowance"]], [false, { limit: 30, remaining: 27, nextTokenMs: 2_000 }]);
    const [asked] = await sluice.logged(/^asked RateLimiter/);
    assert.equal(asked.message, 'asked RateLimiter {"cost":1000000,"capacity":30000000,"refill":500000}');
  });

  test("takes the answer of an older object, without the fields that came later", async () => {
    await using sluice = await start({ faults: { RateLimiter: 'answers:{"admitted":true,"debt":1000000,"at":1796000000000000}' } });
    const { result } = await call(sluice, "192.0.2.1");
    assert.deepEqual([result.isError, result._meta["sluice/allowance"].remaining], [false, 29]);
    assert.deepEqual(sluice.logs(/limiter_failure/), []);
    assert.equal((await metrics(sluice)).mcp_limiter_rows_written_total, 0);
  });
});

describe("a policy that changes between calls", () => {
  test("a deploy keeps the bucket, a larger capacity gives the difference, a smaller one forgives nothing", async () => {
    await using sluice = await start({ vars: { ...SLOW, MCP_RATE_LIMIT_BURST: "20" } });
    const left = async (burst) => {
      await sluice.update({ vars: { MCP_RATE_LIMIT_BURST: String(burst) } });
      return drain(sluice, "192.0.2.1");
    };
    assert.equal((await drain(sluice, "192.0.2.1"))[0], 20);
    assert.equal((await left(20))[0], 0, "the same again");
    assert.equal((await left(25))[0], 5);
    const [none, refused] = await left(10);
    assert.equal(none, 0);
    const { retryAfterMs } = refusalOf(refused);
    assert.ok(retryAfterMs > 15_900_000 && retryAfterMs <= 16_000_000, `the debt is 25 and may be 9: ${retryAfterMs}`);
    assert.equal((await left(30))[0], 5, "30 in all, as many as the largest holds");
    assert.equal((await left(20))[0], 0);
    assert.equal((await left(30))[0], 0);
  });

  test("a faster refill ends a long wait at once, and a slower one locks nobody out for longer than it says", async () => {
    await using sluice = await start({ vars: SLOW });
    const started = performance.now();
    await drain(sluice, "192.0.2.1");
    await sluice.update({ vars: { MCP_RATE_LIMIT: "5" } });
    await until(async () => ran(await call(sluice, "192.0.2.1")), "a token to come back", 5_000);
    const [more, refused] = await drain(sluice, "192.0.2.1");
    const elapsed = (performance.now() - started) / 1_000;
    assert.ok(30 + 1 + more <= 30 + elapsed * 5, `${31 + more} ran in ${elapsed} s`);
    assert.ok(refusalOf(refused).retryAfterMs <= 200);
    await sluice.update({ vars: { MCP_RATE_LIMIT: "1" } });
    const [, slower] = await drain(sluice, "192.0.2.1");
    const { retryAfterMs } = refusalOf(slower);
    assert.ok(retryAfterMs <= 1_000, `${retryAfterMs}`);
    await pass(retryAfterMs);
    assert.ok(ran(await call(sluice, "192.0.2.1")));
  });

  test("policies that alternate never admit more together than the larger", async () => {
    await using sluice = await start({ vars: SLOW, main: DIRECT });
    const policies = [
      { capacity: 30_000_000, refill: 1_000 },
      { capacity: 10_000_000, refill: 1_000 },
      { capacity: 20_000_000, refill: 1 },
    ];
    const answers = await atOnce(300, (index) => ask(sluice, "two plans", { cost: 1_000_000, ...policies[index % 3] }));
    assert.equal(answers.filter(({ json }) => json.admitted).length, 30);
    for (const { json } of answers) assert.ok(json.admitted || json.wait > 0);
  });

  test("a debt far above a new, slow policy is refused, not taken for nonsense", async () => {
    const large = { MCP_RATE_LIMIT: "1", MCP_RATE_LIMIT_BURST: "10000", MCP_TOOLS: { echo: { cost: 10_000 } } };
    await using sluice = await start({ vars: large });
    assert.ok(ran(await call(sluice, "192.0.2.1")));
    await sluice.update({ vars: { MCP_RATE_LIMIT: "0.000001", MCP_RATE_LIMIT_BURST: "30", MCP_TOOLS: null } });
    const answer = await call(sluice, "192.0.2.1");
    assert.equal(refusalOf(answer)?.reason, "rate", answer.text);
    assert.deepEqual(sluice.logs(/limiter_failure/), []);
  });
});

describe("a row that can't be read", () => {
  const open = worker({ vars: SLOW, main: DIRECT });
  const closed = worker({ vars: { ...SLOW, MCP_FAIL: "closed" }, main: DIRECT });
  const now = 1_796_000_000_000_000;
  const rows = {
    "isn't JSON": "nonsense",
    "is empty": "",
    "isn't an object": "[1]",
    "lacks a field": `{"debt":1000000,"at":${now}}`,
    "has a negative debt": `{"debt":-1,"at":${now},"refill":1000,"alarm":0}`,
    "isn't text": 7,
    "has an impossible debt": `{"debt":18446744073709551615,"at":${now},"refill":1000,"alarm":0}`,
    "has an impossible time": `{"debt":1000000,"at":18446744073709551615,"refill":1000,"alarm":18446744073709551615}`,
    "never drains": `{"debt":1000000,"at":${now},"refill":0,"alarm":0}`,
  };
  for (const [what, row] of Object.entries(rows)) {
    test(`one that ${what}: a failure by policy, or harmless; and the alarm clears it`, async () => {
      const address = `192.0.2.${10 + Object.keys(rows).indexOf(what)}`;
      const name = nameOf(address);
      for (const [sluice, runs] of [[open, true], [closed, false]]) {
        await call(sluice, address, "rate_limit_status");
        await sluice.store(name, row);
        sluice.clearLogs();
        const answer = await call(sluice, address);
        if (ran(answer)) {
          if (!runs) assert.deepEqual(sluice.logs(/limiter_failure/), [], "it ran, so it was no failure");
        } else {
          assert.equal(runs, false, answer.text);
          assert.equal(refusalOf(answer).reason, "unavailable");
          const [line] = await sluice.logged(/limiter_failure/);
          assert.equal(JSON.parse(line.message).policy, "closed");
          assert.notEqual(JSON.parse(line.message).cause, "");
        }
        await sluice.store(name, row);
        const fired = await alarm(sluice, name);
        assert.equal(fired.status, 200, fired.text);
        const { row: kept } = await sluice.stored(name);
        if (kept !== undefined) await call(sluice, address);
        else assert.deepEqual(await sluice.stored(name), NOTHING);
        // Whatever it was: afterwards the caller is neither locked out for ever nor free.
        const [count, refused] = await drain(sluice, address);
        assert.equal(refusalOf(refused).reason, "rate");
        assert.ok(count >= 28 && count <= 30, `${count}`);
      }
    });
  }

  test("the alarm that was set before clears it without being asked", async () => {
    await using sluice = await start({ vars: { MCP_RATE_LIMIT: "0.2", MCP_FAIL: "closed" } });
    await call(sluice, "192.0.2.1");
    await sluice.store(nameOf("192.0.2.1"), "nonsense");
    assert.equal(refusalOf(await call(sluice, "192.0.2.1")).reason, "unavailable");
    await emptied(sluice, nameOf("192.0.2.1"));
    await sluice.logged(/unreadable_row/);
    assert.ok(ran(await call(sluice, "192.0.2.1")));
  });
});

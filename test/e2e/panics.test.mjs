// After a panic, in front or in the object: everything in flight is answered, the next call runs, and the bucket is what it was.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { atOnce, call, countRan, ran, status } from "./calls.mjs";
import { start } from "./harness.mjs";

const vars = { MCP_RATE_LIMIT: "0.001", MCP_TOOLS: { test_slow: { cost: 0 }, test_panic: { cost: 0 } } };

let sluice;
before(async () => (sluice = await start({ fixtures: true, main: "test/e2e/faults/panics.mjs", vars })));
after(() => sluice?.close());

const remaining = async (address) => (await status(sluice, address)).remaining;

const isInternalError = ({ status, error }) => {
  assert.equal(status, 500);
  assert.deepEqual(error, { code: -32603, message: "Internal error" });
};

test("a panic in front is answered, and so is what was in flight", async () => {
  const address = "192.0.2.1";
  for (let round = 1; round <= 5; round += 1) {
    assert.ok(ran(await call(sluice, address)));
    const inFlight = [1, 2, 3].map(() => call(sluice, address, "test_slow", { ms: 60_000 }));
    // Something that is answered after them was received after them.
    await call(sluice, address, "test_slow", { ms: 50 });
    isInternalError(await call(sluice, address, "test_panic", {}));
    for (const answer of await Promise.all(inFlight)) isInternalError(answer);
    assert.equal(await remaining(address), 30 - round, "what was charged before the panic stays charged, and nothing else");
  }
  assert.ok((await sluice.logged(/on demand, in front/)).length > 0, "the panic is printed");
});

test("a panic in the object takes nothing from the bucket, and the next call runs", async () => {
  const address = "192.0.2.2";
  for (let round = 1; round <= 5; round += 1) {
    assert.ok(ran(await call(sluice, address)));
    const inFlight = call(sluice, address, "test_slow", { ms: 60_000 });
    await call(sluice, address, "test_slow", { ms: 50 });
    await sluice.fetch(`/panic-object?name=address:${address}`, { method: "POST" });
    isInternalError(await inFlight);
    assert.equal(await remaining(address), 30 - round);
  }
});

test("a bucket is as exact after panics as before", async () => {
  await call(sluice, "192.0.2.3", "test_panic", {});
  assert.equal(countRan(await atOnce(60, () => call(sluice, "192.0.2.3"))), 30);
});

// A panic stops the whole WebAssembly instance, with every request in flight in it. It must stop nothing else: whoever was in flight is
// answered (by the guard of src/entry.mjs), the next call runs, and the bucket is what it was.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { atOnce, call, drain, message, nameOf, ran, refusalOf, until } from "./calls.mjs";
import { start } from "./harness.mjs";
import { events, pair } from "./upstreams/gateway.mjs";
import { event, stream } from "./upstreams/scripted.mjs";

// In flight for so long that only a panic ends them sooner.
const SLOW_MS = 30_000;

// With what makes an object panic.
const PANICKING = { fixtures: true, main: "test/e2e/faults/direct.mjs" };

let sluice;
before(async () => {
  sluice = await start({ ...PANICKING, vars: { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "20000" } });
});
after(() => sluice?.close());

const panicInObject = (address, of = sluice) => of.mcp(message(), { address, headers: { "test-panic": "1" } });

const row = async (address) => (await sluice.stored(nameOf(address))).row;

const answeredByGuard = ({ status, json }, what) => {
  assert.equal(status, 500, what);
  assert.deepEqual(json, { jsonrpc: "2.0", error: { code: -32603, message: "Internal error" } }, what);
};

// Calls that are still running, from an address of their own, once the object has admitted them.
async function inFlight(address, count) {
  const calls = Array.from({ length: count }, () => call(sluice, address, "test_slow", { ms: SLOW_MS }));
  await until(async () => {
    const text = await row(address);
    return text && JSON.parse(text).debt > (count - 0.5) * 1_000_000;
  }, "the calls to be admitted");
  return calls;
}

test("a panic in front: it and all in flight are answered, the next call runs, the buckets are what they were", async () => {
  for (let round = 0; round < 5; round += 1) {
    const [busy, panics, other] = [1, 2, 3].map((last) => `192.0.2.${round * 10 + last}`);
    await call(sluice, other);
    const before = await row(other);
    const slow = await inFlight(busy, 3);
    const started = performance.now();
    const answer = await call(sluice, panics, "test_panic");
    answeredByGuard(answer, "the call that panics");
    for (const one of await Promise.all(slow)) answeredByGuard(one, "a call in flight");
    assert.ok(performance.now() - started < SLOW_MS / 2, "long before they would have ended by themselves");
    assert.equal(await row(other), before);
    assert.equal(JSON.parse(await row(panics)).debt, 1_000_000, "what was admitted is charged, once");
    for (const [address, left] of [[panics, 28], [busy, 26], [other, 28]]) {
      const next = await call(sluice, address);
      assert.ok(ran(next), next.text);
      assert.equal(next.result._meta["sluice/allowance"].remaining, left, address);
    }
  }
});

test("a panic in the object: it and all in flight are answered, the next call runs, the bucket is what it was", async () => {
  for (let round = 0; round < 5; round += 1) {
    const [busy, panics] = [1, 2].map((last) => `198.51.100.${round * 10 + last}`);
    await call(sluice, panics);
    const before = await sluice.stored(nameOf(panics));
    const slow = await inFlight(busy, 3);
    const started = performance.now();
    answeredByGuard(await panicInObject(panics), "the call whose question panics");
    for (const one of await Promise.all(slow)) answeredByGuard(one, "a call in flight");
    assert.ok(performance.now() - started < SLOW_MS / 2);
    await sluice.logged(/on demand, in the object/, { count: round + 1 });
    assert.deepEqual(await sluice.stored(nameOf(panics)), before);
    for (const [address, left] of [[panics, 28], [busy, 26]]) {
      const next = await call(sluice, address);
      assert.ok(ran(next), next.text);
      assert.equal(next.result._meta["sluice/allowance"].remaining, left, address);
    }
  }
});

// The shim marks an instance whose trap it sees, so here the crate's own hook is one of two: what it logs tells that it is there.
test("a panic is printed with its place, and the hook of the worker crate runs as well", async () => {
  sluice.clearLogs();
  await call(sluice, "203.0.113.77", "test_panic");
  const [line] = await sluice.logged(/Critical/);
  assert.match(line.message, /Rust panic: .*on demand, in front/s);
  const [printed] = await sluice.logged(/^panicked at src\/tools\/fixtures\/faults\.rs/);
  assert.match(printed.message, /on demand, in front/);
});

test("after panics an empty bucket is still empty", async () => {
  const address = "203.0.113.1";
  const [count] = await drain(sluice, address);
  assert.equal(count, 30);
  const full = await sluice.stored(nameOf(address));
  for (let round = 0; round < 5; round += 1) {
    // The first one takes what the isolate remembers, so that the second question really goes to the object.
    answeredByGuard(await call(sluice, "203.0.113.2", "test_panic"));
    answeredByGuard(await panicInObject(address));
    const answer = await call(sluice, address);
    assert.equal(refusalOf(answer)?.reason, "rate", answer.text);
  }
  assert.deepEqual(await sluice.stored(nameOf(address)), full);
});

test("panics in the middle of a flood let no call too many through, and leave nobody without an answer", async () => {
  const address = "203.0.113.3";
  const answers = await atOnce(200, (index) =>
    index % 50 === 25 ? call(sluice, "203.0.113.4", "test_panic") : call(sluice, address),
  );
  let count = 0;
  for (const answer of answers) {
    if (ran(answer)) count += 1;
    else if (refusalOf(answer)?.reason !== "rate") answeredByGuard(answer, answer.text);
  }
  const [more] = await drain(sluice, address);
  assert.ok(count + more <= 30, `${count} ran in the flood and ${more} after it`);
});

test("every path answers right after a panic, and the panic is logged with its place", async () => {
  sluice.clearLogs();
  await call(sluice, "203.0.113.5", "test_panic");
  for (const path of ["/healthz", "/stats", "/metrics"]) assert.equal((await sluice.fetch(path)).status, 200, path);
  assert.ok(ran((await sluice.mcp(message(), { address: "203.0.113.6" }))));
  const [line] = await sluice.logged(/on demand, in front/);
  assert.match(line.message, /src\/tools\/fixtures\/faults\.rs/);
});

test("a stream that passes through the gateway ends when its instance is broken", async () => {
  await using both = await pair({}, PANICKING);
  const { sluice: gateway, upstream } = both;
  upstream.respond((seen, response, next) => {
    if (seen.method !== "GET") return next();
    stream(response);
    response.write(event({ jsonrpc: "2.0", method: "notifications/x" }));
  });
  const read = events(await gateway.fetch("/mcp", { headers: { accept: "text/event-stream" }, signal: AbortSignal.timeout(SLOW_MS) }));
  assert.match(await read.next(), /notifications/);
  answeredByGuard(await panicInObject("192.0.2.1", gateway));
  // Broken off or ended, but not given up by this client: either way a client comes again.
  const over = await read.next().catch((error) => error);
  assert.ok(over === undefined || over.name === "TypeError", String(over));
  await until(() => upstream.seen.find(({ method }) => method === "GET").gone, "the stream behind is given up");
  assert.ok(ran(await call(gateway, "192.0.2.1")), "the next call runs");
});

test("a long answer in JSON that passes through the gateway is broken off when its instance is broken", async () => {
  await using both = await pair({}, PANICKING);
  const { sluice: gateway, upstream } = both;
  upstream.respond(({ messages: [asked] }, response, next) => {
    if (asked?.method !== "tools/call" || asked.params.arguments.text !== "long") return next();
    response.writeHead(200, { "content-type": "application/json" });
    // More than is gathered, and never all of it.
    response.write(`{"jsonrpc":"2.0","id":${asked.id},"result":{"content":[{"type":"text","text":"${"x".repeat(512 << 10)}`);
  });
  const answer = await gateway.fetch("/mcp", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", "cf-connecting-ip": "192.0.2.7" },
    body: JSON.stringify(message("echo", { text: "long" })),
    signal: AbortSignal.timeout(SLOW_MS),
  });
  assert.equal(answer.status, 200);
  const body = answer.text().catch((error) => error);
  answeredByGuard(await panicInObject("192.0.2.1", gateway));
  const over = await body;
  assert.ok(typeof over === "string" ? over.length > 0 : over.name === "TypeError", String(over).slice(0, 99));
});

// What holds for whom: plans, the buckets that callers share, the flood gate, published limits, and what the operator decides for one caller.
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
  until,
} from "./calls.mjs";
import { fromFile, start, worker } from "./harness.mjs";
import { hmac } from "./issuer.mjs";

const SECRET = "a secret of 32 bytes at the very least";

const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "60000" };
const BY_TOKEN = { ...SLOW, MCP_CALLER: "token", MCP_JWT_SECRET: SECRET };

const by = (claims) => ({ headers: { authorization: `Bearer ${typeof claims === "string" ? claims : hmac(SECRET, claims)}` } });
const callBy = (sluice, claims, name, args) => sluice.mcp(message(name, args), { address: "192.0.2.99", ...by(claims) });
const stored = async (sluice, name) => JSON.parse((await sluice.stored(name)).row ?? "null");

describe("plans", () => {
  const sluice = worker({
    vars: { ...BY_TOKEN, MCP_PLAN_CLAIM: "plan", MCP_PLANS: { pro: { burst: 50, quota: "4/day" }, small: { burst: 2 } } },
  });

  test("a verified token's claim gives its caller other numbers, and one plan is no other's", async () => {
    const limits = async (claims) => (await callBy(sluice, claims)).headers.get("ratelimit-policy");
    assert.equal(await limits({ sub: "alice", plan: "pro" }), '"tools-call";q=50;w=50000, "daily";q=4;w=86400');
    assert.equal(await limits({ sub: "bob", plan: "small" }), '"tools-call";q=2;w=2000');
    assert.equal(await limits({ sub: "carol" }), '"tools-call";q=30;w=30000');
    assert.ok(ran(await callBy(sluice, { sub: "bob", plan: "small" })));
    assert.equal(refusalOf(await callBy(sluice, { sub: "bob", plan: "small" })).reason, "rate");
    for (let count = 0; count < 3; count += 1) assert.ok(ran(await callBy(sluice, { sub: "alice", plan: "pro" })));
    assert.equal(refusalOf(await callBy(sluice, { sub: "alice", plan: "pro" })).reason, "quota");
  });

  test("an unknown plan is the default, and is counted", async () => {
    const count = async () => (await metrics(sluice)).mcp_unknown_plans_total;
    const before = await count();
    const answer = await callBy(sluice, { sub: "dave", plan: "gold" });
    assert.equal(answer.headers.get("ratelimit-policy"), '"tools-call";q=30;w=30000');
    assert.equal(await count(), before + 1);
  });

  test("two plans of one caller that alternate never add up to more than the larger", async () => {
    const answers = [];
    for (let count = 0; count < 70; count += 1) {
      answers.push(await callBy(sluice, { sub: "erin", plan: count % 2 ? "small" : undefined }));
    }
    assert.equal(countRan(answers), 30);
  });
});

describe("callers without a token, each by its address", () => {
  const sluice = worker({
    vars: { ...BY_TOKEN, MCP_ANONYMOUS: "address", MCP_RATE_LIMIT_ANONYMOUS: "0.001", MCP_RATE_LIMIT_BURST: "10" },
  });

  test("share a bucket beside their own, which is asked first", async () => {
    for (let count = 0; count < 4; count += 1) assert.ok(ran(await call(sluice, "192.0.2.1")));
    for (let count = 0; count < 6; count += 1) assert.ok(ran(await call(sluice, "192.0.2.3")));
    const refused = await call(sluice, "192.0.2.1");
    const { reason, allowance } = refusalOf(refused);
    assert.deepEqual([reason, allowance], ["rate", "anonymous"]);
    assert.match(refused.headers.get("ratelimit-policy"), /^"tools-call";q=10;w=10000, "anonymous";q=10;w=10000$/);
    assert.match(refused.headers.get("ratelimit"), /^"anonymous";r=0;t=\d+$/);
    const other = await call(sluice, "192.0.2.2");
    assert.equal(refusalOf(other).allowance, "anonymous");
    assert.equal(await stored(sluice, nameOf("192.0.2.2")), null, "its own object was never asked");
    assert.ok(ran(await callBy(sluice, { sub: "alice" })), "who has a token isn't touched by it");
    const all = await metrics(sluice);
    const series = Object.keys(all).find((name) => name.startsWith("mcp_rate_limited_total") && name.includes('allowance="anonymous"'));
    assert.match(series, /caller="anonymous"/);
  });
});

test("what a shared bucket gave comes back when the caller's own object refuses", async () => {
  await using sluice = await start({
    vars: { ...BY_TOKEN, MCP_ANONYMOUS: "address", MCP_RATE_LIMIT_ANONYMOUS: "0.001", MCP_RATE_LIMIT_BURST: "10", MCP_QUOTA: "2/day" },
  });
  const own = [];
  for (let count = 0; count < 5; count += 1) own.push(await call(sluice, "192.0.2.1"));
  assert.equal(countRan(own), 2);
  assert.equal(refusalOf(own.at(-1)).reason, "quota");
  await until(async () => Math.round((await stored(sluice, "anonymous")).debt / 1_000_000) === 2, "three tokens came back");
  const others = [];
  for (const last of [2, 3, 4, 5, 6]) for (let count = 0; count < 2; count += 1) others.push(await call(sluice, `192.0.2.${last}`));
  assert.equal(countRan(others), 8, "ten in all");
  assert.equal(refusalOf(others.at(-1)).allowance, "anonymous");
});

test("what a shared bucket gave comes back when the question after it fails", async () => {
  await using sluice = await start({
    vars: { ...BY_TOKEN, MCP_ANONYMOUS: "address", MCP_RATE_LIMIT_ANONYMOUS: "0.001", MCP_RATE_LIMIT_BURST: "10", MCP_FAIL: "closed", MCP_QUOTA: "9/day" },
    faults: { RateLimiter: "own:throws" },
  });
  const refused = await call(sluice, "192.0.2.1");
  assert.deepEqual([refusalOf(refused).reason, refusalOf(refused).allowance], ["unavailable", "caller"]);
  await until(async () => (await stored(sluice, "anonymous"))?.returned?.length === 1, "the token came back");
  assert.ok((await stored(sluice, "anonymous")).debt < 500_000);
});

test("callers without a token, all as one, have that one bucket alone", async () => {
  await using sluice = await start({
    vars: { ...BY_TOKEN, MCP_ANONYMOUS: "shared", MCP_RATE_LIMIT_ANONYMOUS: "0.001", MCP_RATE_LIMIT_BURST: "10", MCP_QUOTA: "2/day" },
  });
  const answers = await atOnce(40, (index) => call(sluice, `192.0.2.${index}`));
  allRanOrRefused(answers);
  assert.equal(countRan(answers), 10);
  const refused = await call(sluice, "198.51.100.1");
  assert.deepEqual([refusalOf(refused).reason, refusalOf(refused).allowance], ["rate", "anonymous"]);
  assert.equal(refused.headers.get("ratelimit-policy"), '"tools-call";q=10;w=10000');
});

// Of a crowd nearly all are refused. How many of them ask is what an object can bear or not (docs/scale.md).
test("a crowd before an empty shared bucket asks it now and then, and gets what comes back", async () => {
  await using sluice = await start({
    vars: { ...BY_TOKEN, MCP_RATE_LIMIT: "0", MCP_ANONYMOUS: "address", MCP_RATE_LIMIT_ANONYMOUS: "10", MCP_RATE_LIMIT_BURST: "20" },
  });
  const address = (round, index) => `10.${round}.${index >> 8}.${index & 255}`;
  const started = performance.now();
  const first = await atOnce(40, (index) => call(sluice, address(0, index)));
  assert.ok(countRan(first) >= 20, "the bucket is given out");
  const before = await metrics(sluice);
  const answers = [];
  for (let round = 1; round <= 10; round += 1) answers.push(...(await atOnce(100, (index) => call(sluice, address(round, index)))));
  allRanOrRefused(answers);
  const count = countRan(first) + countRan(answers);
  const came = ((performance.now() - started) / 1_000) * 10;
  assert.ok(count <= 20 + came + 1, `${count} ran, of 20 and the ${came} that came back`);
  assert.ok(countRan(answers) > 0, "some of what came back was given out");
  for (const { reason, allowance, retryAfterMs } of answers.filter((answer) => !ran(answer)).map(refusalOf)) {
    assert.deepEqual([reason, allowance], ["rate", "anonymous"]);
    assert.ok(retryAfterMs > 0 && retryAfterMs <= 100);
  }
  const after = await metrics(sluice);
  const asked = after.mcp_limiter_questions_total - before.mcp_limiter_questions_total;
  assert.equal(asked + after.mcp_remembered_refusals_total - before.mcp_remembered_refusals_total, 1_000);
  // Each round begins with nothing on the way.
  assert.ok(asked >= 10 && asked < 500, `${asked} of 1,000 asked`);
  // Who comes alone, a second later, is asked for.
  await until(async () => ran(await call(sluice, "192.0.2.1")), "a token for one more");
});

test("what another limit refuses is no crowd before the bucket that all share", async () => {
  const MCP_TOOLS = { echo: { quota: "1/day" } };
  await using sluice = await start({
    vars: { ...BY_TOKEN, MCP_ANONYMOUS: "shared", MCP_RATE_LIMIT_ANONYMOUS: "0.001", MCP_RATE_LIMIT_BURST: "50", MCP_TOOLS },
  });
  await call(sluice, "192.0.2.1");
  assert.equal(refusalOf(await call(sluice, "192.0.2.2")).reason, "quota");
  const others = await atOnce(40, (index) => call(sluice, `192.0.2.${index}`, "list_decisions"));
  assert.equal(countRan(others), 40, "of which the bucket had room for all");
});

test("a bucket that gives more than an object can be asked for is several", async () => {
  await using sluice = await start({
    vars: { MCP_RATE_LIMIT: "0", MCP_CALLER: "token", MCP_TOKEN_UNVERIFIED: "digest", MCP_RATE_LIMIT_SHARED: "2000", MCP_RATE_LIMIT_BURST: "10" },
  });
  const answers = await atOnce(60, (index) => callBy(sluice, `somebody-${index}`));
  assert.equal(countRan(answers), 60);
  assert.equal(answers[0].headers.get("ratelimit-policy"), '"shared";q=1000;w=2', "a caller meets one of four");
  const names = new Set(["shared:0", "shared:1", "shared:2", "shared:3"]);
  const ids = await Promise.all([...names].map((name) => sluice.id(name)));
  const objects = await sluice.objects();
  assert.deepEqual(objects.map(String).sort(), ids.sort(), "these, and no others");
});

test("rotating unverified tokens: the bucket that they share holds, and makes no objects beyond it", async () => {
  await using sluice = await start({
    vars: { ...SLOW, MCP_CALLER: "token", MCP_TOKEN_UNVERIFIED: "digest", MCP_RATE_LIMIT_SHARED: "0.001", MCP_RATE_LIMIT_BURST: "10" },
  });
  const answers = await atOnce(300, (index) => callBy(sluice, `made-up-${index}`));
  allRanOrRefused(answers);
  assert.equal(countRan(answers), 10);
  assert.equal(refusalOf(answers.find((answer) => !ran(answer))).allowance, "shared");
  assert.equal((await sluice.objects()).length, 11, "the shared one, and one for each that ran");
});

test("with the caller's bucket off the shared bucket still holds, also for free tools with limits of their own", async () => {
  const MCP_TOOLS = { list_decisions: { cost: 0, quota: "9/day" } };
  await using sluice = await start({
    vars: { MCP_RATE_LIMIT: "0", MCP_CALLER: "token", MCP_TOKEN_UNVERIFIED: "digest", MCP_RATE_LIMIT_SHARED: "0.001", MCP_RATE_LIMIT_BURST: "10", MCP_TOOLS },
  });
  const names = ["echo", "list_decisions"];
  const answers = await atOnce(60, (index) => callBy(sluice, `made-up-${index}`, names[index % 2]));
  allRanOrRefused(answers);
  assert.equal(countRan(answers), 10);
  assert.ok((await sluice.objects()).length <= 11);
});

describe("the flood gate", () => {
  const gate = (limit) => ({ ratelimits: [{ name: "FLOOD_GATE", namespace_id: "6000", simple: { limit, period: 60 } }] });

  test("refuses POSTs of an address above its number before their body is read, and nothing else", async () => {
    await using sluice = await start({ config: gate(5) });
    for (let count = 0; count < 5; count += 1) {
      assert.equal((await sluice.mcp(request("ping"), { address: "192.0.2.1" })).status, 200);
    }
    const over = await sluice.mcp("{not json", { address: "192.0.2.1" });
    assert.equal(over.status, 429);
    assert.equal(over.headers.get("retry-after"), "60");
    assert.equal(over.headers.get("content-type"), "application/problem+json");
    assert.equal(over.json.type, "https://iana.org/assignments/http-problem-types#abnormal-usage-detected");
    assert.equal(over.json.status, 429);
    const other = { headers: { authorization: "Bearer another", "mcp-session-id": "another", "x-forwarded-for": "203.0.113.7" } };
    assert.equal((await sluice.mcp(request("ping"), { address: "192.0.2.1", ...other })).status, 429, "by address only");
    assert.equal((await sluice.mcp(request("ping"), { address: "192.0.2.2" })).status, 200);
    for (const [path, method, status] of [
      ["/mcp", "OPTIONS", 204],
      ["/mcp", "GET", 405],
      ["/healthz", "GET", 200],
      ["/limits", "GET", 200],
      ["/.well-known/oauth-protected-resource/mcp", "GET", 404],
    ]) {
      assert.equal((await sluice.fetch(path, { method, address: "192.0.2.1" })).status, status, `${method} ${path}`);
    }
  });

  test("lets everything pass where it is missing", async () => {
    await using sluice = await start({ config: { ratelimits: [] } });
    const answers = await atOnce(20, () => sluice.mcp(request("ping"), { address: "192.0.2.1" }));
    assert.ok(answers.every(({ status }) => status === 200));
  });

  for (const [fault, cause] of [
    ["fails", /"flood_gate_failure","cause":"[^"]*the gate fails/],
    ["hangs", /"flood_gate_failure","cause":"no answer within 50 ms"/],
  ]) {
    test(`lets everything pass where it ${fault}, and says so in the log`, async () => {
      await using sluice = await start({ main: "test/e2e/faults/direct.mjs", vars: { MCP_LIMITER_TIMEOUT_MS: "50" } });
      const answer = await sluice.mcp(request("ping"), { address: "192.0.2.1", headers: { "test-gate": fault } });
      assert.equal(answer.status, 200);
      await sluice.logged(cause);
    });
  }

  test("is shipped with 6,000 a minute", () => {
    assert.deepEqual(structuredClone(fromFile.ratelimits), gate(6_000).ratelimits);
  });
});

test("GET /limits tells everybody what they can plan with", async () => {
  const echo = { cost: 2, rate: 0.25, burst: 5, quota: "9/hour", max_in_flight: 2, poll_seconds: 7, min_gap_ms: 250 };
  await using sluice = await start({
    vars: { MCP_ADMIN_TOKEN: "s3cret", MCP_QUOTA: "5/day", MCP_MAX_IN_FLIGHT: "4", MCP_MAX_BATCH: "7", MCP_TOOLS: { echo } },
  });
  const response = await sluice.fetch("/limits");
  assert.equal(response.status, 200);
  const { tools, ...rest } = await response.json();
  assert.deepEqual(rest, {
    rate: 0.5,
    burst: 30,
    quota: "5/day",
    max_in_flight: 4,
    anonymous: null,
    shared: null,
    lease_seconds: 300,
    max_wait_ms: 2_000,
    limiter_timeout_ms: 1_000,
    max_request_body: 1_048_576,
    max_batch: 7,
    refusal: "result",
  });
  assert.deepEqual(tools.echo, echo);
  assert.deepEqual(tools.rate_limit_status, { cost: 0 });
});

describe("the operator", () => {
  const sluice = worker({
    vars: {
      ...BY_TOKEN,
      MCP_ADMIN_TOKEN: "s3cret",
      MCP_ANONYMOUS: "address",
      MCP_RATE_LIMIT_ANONYMOUS: "0",
      MCP_JWT_ISSUER: "https://issuer.example",
      MCP_QUOTA: "100/day",
      MCP_MAX_IN_FLIGHT: "5",
    },
  });
  const admin = async (path, { method = "GET", body, token = "s3cret" } = {}) => {
    const headers = token === null ? {} : { authorization: `Bearer ${token}` };
    const init = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
    const response = await sluice.fetch(`/admin/callers/${path}`, init);
    const text = await response.text();
    return { status: response.status, headers: response.headers, json: text ? JSON.parse(text) : undefined };
  };
  const issued = (claims) => ({ iss: "https://issuer.example", ...claims });
  // What an isolate remembers of a caller is over after ten seconds.
  const runsAgain = (make) => until(async () => ran(await make()), "the call runs", 15_000);

  test("shows how a caller stands", async () => {
    await call(sluice, "192.0.2.1");
    const { status, json, headers } = await admin("address/192.0.2.1");
    assert.equal(status, 200);
    assert.equal(headers.get("cache-control"), "no-store");
    assert.ok(json.owed > 0.5 && json.owed <= 1, `${json.owed}`);
    assert.deepEqual({ ...json, owed: 1, quotas: json.quotas.map(({ resetMs, ...quota }) => quota) }, {
      owed: 1,
      tools: {},
      quotas: [{ tool: "", window: "day", calls: 1 }],
      running: 0,
      override: null,
    });
    assert.deepEqual((await admin("address/192.0.2.77")).json, { owed: 0, tools: {}, quotas: [], running: 0, override: null });
    assert.equal(await stored(sluice, nameOf("192.0.2.77")), null, "looking makes nothing");
  });

  test("fills a caller's bucket and forgets its quota", async () => {
    await drain(sluice, "192.0.2.2");
    const { status, json } = await admin("address/192.0.2.2", { method: "DELETE" });
    assert.deepEqual([status, json.owed, json.quotas], [200, 0, []]);
    await runsAgain(() => call(sluice, "192.0.2.2"));
    assert.deepEqual((await admin("address/192.0.2.3", { method: "DELETE" })).json.owed, 0);
  });

  test("gives a caller numbers of its own for a time, which its answers tell", async () => {
    const { status, json } = await admin("address/192.0.2.4", { method: "PUT", body: { burst: 2, quota: "1/hour", seconds: 3 } });
    assert.equal(status, 200);
    assert.deepEqual({ ...json.override, endsMs: 0 }, { burst: 2, quota: "1/hour", endsMs: 0 });
    const first = await call(sluice, "192.0.2.4");
    assert.deepEqual(first.result._meta["sluice/allowance"].limit, 1);
    const refused = await call(sluice, "192.0.2.4");
    assert.match(refused.result.content[0].text, /^Quota of 1 call an hour used up\. /);
    await pass(json.override.endsMs + 100);
    assert.ok(ran(await call(sluice, "192.0.2.4")), "it is over");
  });

  test("a larger bucket lets a batch run that would never fit otherwise", async () => {
    const batch = () =>
      sluice.mcp(Array.from({ length: 40 }, (_, index) => message("echo", undefined, index + 1)), {
        address: "192.0.2.5",
        headers: { "mcp-protocol-version": "2025-03-26" },
      });
    assert.equal(refusalOf((await batch()).json[0]).reason, "capacity");
    await admin("address/192.0.2.5", { method: "PUT", body: { burst: 50, max_in_flight: 50, seconds: 60 } });
    const { json } = await batch();
    assert.equal(json.filter(({ result }) => !result.isError).length, 40, JSON.stringify(json[0]));
  });

  test("blocks a caller for a time, and ends it", async () => {
    await admin("address/192.0.2.6", { method: "PUT", body: { blocked: true, seconds: 3600 } });
    const refused = await call(sluice, "192.0.2.6");
    const { retryAfterMs, ...rest } = refusalOf(refused);
    assert.deepEqual(rest, { reason: "blocked", allowance: "caller", tool: "echo" });
    const seconds = Math.ceil(retryAfterMs / 1_000);
    assert.ok(seconds > 3_500 && seconds <= 3_600, `${seconds}`);
    assert.equal(refused.result.content[0].text, `Calls from here are blocked by the operator. Wait ${seconds} seconds before the next tool call.`);
    assert.equal((await sluice.mcp(request("tools/list"), { address: "192.0.2.6" })).status, 200, "only calls are");
    assert.ok(ran(await call(sluice, "192.0.2.6", "rate_limit_status")), "and none that is free");
    await admin("address/192.0.2.6", { method: "DELETE" });
    assert.equal(refusalOf(await call(sluice, "192.0.2.6")).reason, "blocked", "filling a bucket doesn't end it");
    await admin("address/192.0.2.6", { method: "PUT", body: {} });
    assert.ok(ran(await call(sluice, "192.0.2.6")));
  });

  test("blocks a caller whatever else it is given", async () => {
    await admin("address/192.0.2.9", { method: "PUT", body: { blocked: true, rate: 0, seconds: 60 } });
    assert.equal(refusalOf(await call(sluice, "192.0.2.9"))?.reason, "blocked");
  });

  test("names a caller by its token's claim, percent-encoded", async () => {
    const sub = "auth0|alice/böb 100%";
    const path = `token/${encodeURIComponent(sub)}`;
    assert.ok(ran(await callBy(sluice, issued({ sub }))));
    assert.equal((await admin(path)).json.quotas[0].calls, 1);
    await admin(path, { method: "PUT", body: { blocked: true, seconds: 60 } });
    assert.equal(refusalOf(await callBy(sluice, issued({ sub }))).reason, "blocked");
    assert.ok(ran(await callBy(sluice, issued({ sub: "carol" }))));
    assert.ok(ran(await callBy(sluice, issued({ client_id: "app" }))));
    assert.equal((await admin("token/app?claim=client_id")).json.quotas[0].calls, 1);
    assert.deepEqual((await admin("token/app")).json.quotas, []);
  });

  test("is told what is wrong, and nothing is changed by that", async () => {
    for (const [path, init, status, what] of [
      ["address/192.0.2.300", {}, 404, /no address/],
      ["session/1", {}, 404, /by address and by token/],
      ["token/%ff", {}, 404, /UTF-8/],
      ["address/192.0.2.8", { method: "PUT", body: { blocked: true } }, 400, /^seconds: /],
      ["address/192.0.2.8", { method: "PUT", body: { burst: 0, seconds: 1 } }, 400, /^burst: /],
      ["address/192.0.2.8", { method: "PUT", body: { burst: 1, for: 1 } }, 400, /^for: /],
      ["address/192.0.2.8", { method: "PUT", body: { quota: "x".repeat(5_000), seconds: 1 } }, 413, /too large/],
    ]) {
      const answer = await admin(path, init);
      assert.equal(answer.status, status, path);
      assert.match(answer.json.error, what);
    }
    assert.equal((await admin("address/192.0.2.8", { method: "POST", body: {} })).status, 405);
    assert.equal(await stored(sluice, nameOf("192.0.2.8")), null);
  });

  test("has to have the secret", async () => {
    for (const token of [null, "", "s3cre", "s3cret2"]) {
      const answer = await admin("address/192.0.2.1", { method: "DELETE", token });
      assert.deepEqual([answer.status, answer.headers.get("www-authenticate")], [401, "Bearer"]);
    }
    await sluice.update({ vars: { MCP_ADMIN_TOKEN: null } });
    assert.equal((await admin("address/192.0.2.1")).status, 404, "without one there are no such paths");
  });
});

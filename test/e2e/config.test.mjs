// Each variable changes what is seen from outside, and a wrong one is told, never passed over.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { start } from "./harness.mjs";

const ADDRESS = "192.0.2.1";

const request = (method, params, id = 1) => ({ jsonrpc: "2.0", id, method, ...(params && { params }) });
const tool = (name, args = {}, id = 1) => request("tools/call", { name, arguments: args }, id);
const echo = (id) => tool("echo", { text: "hello" }, id);

/** Calls the Worker for one caller. */
const call = (sluice, message) => sluice.mcp(message, { address: ADDRESS });
const allowance = ({ result }) => result._meta["sluice/allowance"];

/** Runs `use` with a Worker of these vars, over those of wrangler.toml. */
async function withVars(vars, use, options = {}) {
  await using sluice = await start({ ...options, vars });
  await use(sluice);
}

function ran(answer) {
  assert.deepEqual([answer.status, answer.result?.isError], [200, false], answer.text);
}

function refused(answer, reason, text) {
  assert.deepEqual([answer.status, answer.result?.isError], [200, true], answer.text);
  assert.equal(answer.result._meta["sluice/refusal"].reason, reason);
  assert.match(answer.result.content[0].text, text);
}

describe("MCP_RATE_LIMIT", () => {
  for (const [value, nextTokenMs, window] of [
    ["0.5", 2_000, 60],
    [0.25, 4_000, 120],
    ["2", 500, 15],
    [2, 500, 15],
    ["0.000001", 1_000_000_000, 30_000_000],
    [" 1.50 ", 667, 20],
  ]) {
    test(`of ${JSON.stringify(value)} is how fast tokens come back`, () =>
      withVars({ MCP_RATE_LIMIT: value }, async (sluice) => {
        const answer = await call(sluice, echo());
        assert.deepEqual(allowance(answer), { limit: 30, remaining: 29, nextTokenMs });
        assert.equal(answer.headers.get("ratelimit-policy"), `"tools-call";q=30;w=${window}`);
      }));
  }

  for (const value of ["0", 0, "0.0"]) {
    test(`of ${JSON.stringify(value)} switches buckets off, and no object is asked`, () =>
      withVars({ MCP_RATE_LIMIT: value, MCP_RATE_LIMIT_BURST: "1" }, async (sluice) => {
        for (let i = 0; i < 5; i += 1) {
          const answer = await call(sluice, echo());
          ran(answer);
          assert.equal(answer.result._meta, undefined);
          assert.deepEqual([answer.headers.get("ratelimit"), answer.headers.get("ratelimit-policy")], [null, null]);
        }
        assert.deepEqual(await sluice.objects(), []);
      }));
  }
});

describe("MCP_RATE_LIMIT_BURST", () => {
  for (const value of ["3", 3]) {
    test(`of ${JSON.stringify(value)} is how many tokens there are at once`, () =>
      withVars({ MCP_RATE_LIMIT: "0.01", MCP_RATE_LIMIT_BURST: value }, async (sluice) => {
        for (const remaining of [2, 1, 0]) {
          const answer = await call(sluice, echo());
          ran(answer);
          assert.deepEqual([allowance(answer).limit, allowance(answer).remaining], [3, remaining]);
        }
        refused(await call(sluice, echo()), "rate", /^Rate limit reached for echo\. Wait (9\d|100) seconds before the next tool call\.$/);
      }));
  }

  test("below a tool's own cost refuses that tool for good, and no other", () =>
    withVars({ MCP_RATE_LIMIT_BURST: "1" }, async (sluice) => {
      const answer = await call(sluice, tool("search_docs", { query: "limit" }));
      refused(answer, "capacity", /^This call of search_docs costs 2 tokens and the bucket holds 1\. It can never run\.$/);
      assert.ok(!("retryAfterMs" in answer.result._meta["sluice/refusal"]));
      ran(await call(sluice, echo()));
    }));
});

describe("MCP_REFUSAL", () => {
  const bucket = { MCP_RATE_LIMIT: "0.01", MCP_RATE_LIMIT_BURST: "1" };

  test("of result tells a refusal to the model", () =>
    withVars({ ...bucket, MCP_REFUSAL: "result" }, async (sluice) => {
      ran(await call(sluice, echo()));
      const answer = await call(sluice, echo());
      refused(answer, "rate", /^Rate limit reached for echo\./);
      assert.equal(answer.headers.get("retry-after"), null);
      assert.ok(!("structuredContent" in answer.result));
    }));

  test("of http tells it as a 429", () =>
    withVars({ ...bucket, MCP_REFUSAL: "http" }, async (sluice) => {
      ran(await call(sluice, echo()));
      const answer = await call(sluice, echo("a"));
      assert.deepEqual([answer.status, answer.json.id, answer.error.code], [429, "a", -31004]);
      const { retryAfterMs, ...rest } = answer.error.data;
      assert.deepEqual(rest, { reason: "rate", allowance: "caller", tool: "echo" });
      const seconds = Number(answer.headers.get("retry-after"));
      assert.equal(seconds, Math.ceil(retryAfterMs / 1_000));
      assert.equal(answer.error.message, `Rate limit reached for echo. Wait ${seconds} seconds before the next tool call.`);
      assert.match(answer.headers.get("ratelimit"), /^"tools-call";r=0;t=\d+$/);
    }));

  test("of http refuses a batch as an array, every request of it", () =>
    withVars({ ...bucket, MCP_RATE_LIMIT_BURST: "2", MCP_REFUSAL: "http" }, async (sluice) => {
      ran(await call(sluice, echo()));
      const { status, json } = await call(sluice, [echo(1), echo(2), request("ping", undefined, 3)]);
      assert.equal(status, 429);
      assert.deepEqual(json.map(({ id, error }) => [id, error.code]), [[1, -31004], [2, -31004], [3, -31004]]);
      ran(await call(sluice, echo()));
    }));

  test("of http answers what can never run with 400, and without a wait", () =>
    withVars({ ...bucket, MCP_REFUSAL: "http" }, async (sluice) => {
      const answer = await call(sluice, tool("search_docs", { query: "limit" }));
      assert.deepEqual([answer.status, answer.error.code, answer.error.data.reason], [400, -31004, "capacity"]);
      assert.equal(answer.headers.get("retry-after"), null);
    }));

  test("of http answers what the limiter can't be asked about with 503", () =>
    withVars(
      { MCP_FAIL: "closed", MCP_REFUSAL: "http" },
      async (sluice) => {
        const answer = await call(sluice, echo());
        assert.deepEqual([answer.status, answer.error.data.reason], [503, "unavailable"]);
        assert.equal(answer.headers.get("retry-after"), "5");
      },
      { faults: { RateLimiter: "throws:broken" } },
    ));
});

describe("MCP_FAIL, when the limiter throws,", () => {
  const faults = { RateLimiter: "throws:broken" };
  const bucket = { MCP_RATE_LIMIT: "0.01", MCP_RATE_LIMIT_BURST: "2" };

  test("of open runs every call", () =>
    withVars(
      { ...bucket, MCP_FAIL: "open" },
      async (sluice) => {
        for (let i = 0; i < 4; i += 1) ran(await call(sluice, echo()));
      },
      { faults },
    ));

  test("of insured runs what a bucket in the isolate holds", () =>
    withVars(
      { ...bucket, MCP_FAIL: "insured" },
      async (sluice) => {
        ran(await call(sluice, echo()));
        ran(await call(sluice, echo()));
        refused(await call(sluice, echo()), "rate", /^Rate limit reached for echo\./);
      },
      { faults },
    ));

  test("of closed runs none", () =>
    withVars(
      { ...bucket, MCP_FAIL: "closed" },
      async (sluice) => {
        const text = /^The rate limiter can't be asked, and echo doesn't run without it\. Wait 5 seconds before the next tool call\.$/;
        refused(await call(sluice, echo()), "unavailable", text);
      },
      { faults },
    ));
});

describe("MCP_LIMITER_TIMEOUT_MS", () => {
  // The default is 1000: one limiter that it would wait for, and one that it wouldn't.
  const quick = { RateLimiter: "slow:600" };
  const slow = { RateLimiter: "slow:1500" };

  for (const value of ["100", 100]) {
    test(`of ${JSON.stringify(value)} gives a limiter up that takes longer`, () =>
      withVars(
        { MCP_FAIL: "closed", MCP_LIMITER_TIMEOUT_MS: value },
        async (sluice) => refused(await call(sluice, echo()), "unavailable", /can't be asked/),
        { faults: quick },
      ));
  }

  test("of a minute waits for it", () =>
    withVars({ MCP_FAIL: "closed", MCP_LIMITER_TIMEOUT_MS: "60000" }, async (sluice) => ran(await call(sluice, echo())), {
      faults: slow,
    }));

  test("answers a call whose limiter never does", () =>
    withVars(
      { MCP_FAIL: "closed", MCP_LIMITER_TIMEOUT_MS: "100" },
      async (sluice) => refused(await call(sluice, echo()), "unavailable", /can't be asked/),
      { faults: { RateLimiter: "hangs" } },
    ));
});

describe("what a request may be", () => {
  for (const [big, batch] of [
    ["300", "2"],
    [300, 2],
  ]) {
    test(`is bounded by MCP_MAX_REQUEST_BODY and MCP_MAX_BATCH, given as a ${typeof big}`, () =>
      withVars({ MCP_MAX_REQUEST_BODY: big, MCP_MAX_BATCH: batch }, async (sluice) => {
        const ping = JSON.stringify(request("ping"));
        assert.equal((await sluice.mcp(ping.padEnd(300))).status, 200);
        assert.equal((await sluice.mcp(ping.padEnd(301))).status, 413);
        assert.equal((await sluice.mcp(`[${ping},${ping}]`)).status, 200);
        assert.equal((await sluice.mcp(`[${ping},${ping},${ping}]`)).error.code, -32600);
      }));
  }

  test("from a page is bounded by MCP_ALLOWED_ORIGINS", () =>
    withVars({ MCP_ALLOWED_ORIGINS: "app.example" }, async (sluice) => {
      const from = async (origin) => (await sluice.mcp(request("ping"), { headers: { origin } })).status;
      assert.deepEqual([await from("https://app.example"), await from("http://localhost")], [200, 403]);
    }));
});

describe("MCP_TOOLS", () => {
  const cost = (value) => [
    ["a table", { echo: { cost: value } }],
    ["JSON", JSON.stringify({ echo: { cost: value } })],
    ["a table with text", { echo: { cost: String(value) } }],
  ];

  for (const [form, MCP_TOOLS] of cost(7)) {
    test(`as ${form} says what a call costs`, () =>
      withVars({ MCP_TOOLS }, async (sluice) => {
        assert.equal(allowance(await call(sluice, echo())).remaining, 23);
        assert.equal(allowance(await call(sluice, tool("list_decisions"))).remaining, 22);
      }));
  }

  for (const [form, MCP_TOOLS] of cost(0)) {
    test(`as ${form} may make a tool free`, () =>
      withVars({ MCP_TOOLS, MCP_RATE_LIMIT: "0.01", MCP_RATE_LIMIT_BURST: "1" }, async (sluice) => {
        for (let i = 0; i < 3; i += 1) ran(await call(sluice, echo()));
        ran(await call(sluice, tool("list_decisions")));
        refused(await call(sluice, tool("list_decisions")), "rate", /list_decisions/);
        ran(await call(sluice, echo()));
      }));
  }

  test("may have a tool's cost be the whole bucket", () =>
    withVars({ MCP_TOOLS: { echo: { cost: 30 } } }, async (sluice) => {
      assert.equal(allowance(await call(sluice, echo())).remaining, 0);
    }));

  for (const [form, make] of [
    ["a table", (value) => value],
    ["JSON", JSON.stringify],
  ]) {
    test(`as ${form} says which tools don't run without the limiter`, () =>
      withVars(
        { MCP_FAIL: "open", MCP_TOOLS: make({ echo: { fail: "closed" } }) },
        async (sluice) => {
          refused(await call(sluice, echo()), "unavailable", /\becho\b/);
          ran(await call(sluice, tool("list_decisions")));
        },
        { faults: { RateLimiter: "throws:broken" } },
      ));
  }

  for (const MCP_TOOLS of [{}, "{}", { echo: {} }]) {
    test(`of ${JSON.stringify(MCP_TOOLS)} changes nothing`, () =>
      withVars({ MCP_TOOLS }, async (sluice) => assert.equal(allowance(await call(sluice, echo())).remaining, 29)));
  }
});

describe("MCP_ADMIN_TOKEN", () => {
  const paths = ["/stats", "/metrics"];

  test("is asked for by what was counted, and by nothing else", () =>
    withVars({ MCP_ADMIN_TOKEN: "s3cret" }, async (sluice) => {
      const ask = (path, authorization) => sluice.fetch(path, { headers: authorization === undefined ? {} : { authorization } });
      for (const path of paths) {
        for (const wrong of [undefined, "", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"]) {
          const answer = await ask(path, wrong);
          assert.equal(answer.status, 401, `${path} ${wrong}`);
          assert.match(answer.headers.get("www-authenticate"), /^Bearer\b/);
          assert.equal(await answer.text(), "");
        }
        for (const right of ["Bearer s3cret", "bearer s3cret"]) assert.equal((await ask(path, right)).status, 200);
      }
      assert.equal((await ask("/healthz")).status, 200);
      ran(await call(sluice, echo()));
    }));

  test("that isn't set lets everybody read", () =>
    withVars({}, async (sluice) => {
      for (const path of paths) assert.equal((await sluice.fetch(path)).status, 200);
    }));
});

test("without any variable, the defaults hold", () =>
  withVars(
    Object.fromEntries(
      [
        ...["MCP_RATE_LIMIT", "MCP_RATE_LIMIT_BURST", "MCP_CALLER", "MCP_ANONYMOUS", "MCP_TOKEN_UNVERIFIED", "MCP_JWKS_URL"],
        ...["MCP_JWT_ISSUER", "MCP_JWT_AUDIENCE", "MCP_JWT_SECRET", "MCP_CALLER_CLAIMS", "MCP_AUTHORIZATION_SERVERS"],
        ...["MCP_REFUSAL", "MCP_FAIL", "MCP_LIMITER_TIMEOUT_MS"],
        ...["MCP_MAX_REQUEST_BODY", "MCP_MAX_BATCH", "MCP_ALLOWED_ORIGINS", "MCP_TOOLS", "MCP_ADMIN_TOKEN"],
      ].map((name) => [name, null]),
    ),
    async (sluice) => {
      const answer = await call(sluice, echo());
      assert.deepEqual(allowance(answer), { limit: 30, remaining: 29, nextTokenMs: 2_000 });
      assert.equal(answer.headers.get("ratelimit-policy"), '"tools-call";q=30;w=60');
      const ping = JSON.stringify(request("ping"));
      assert.equal((await sluice.mcp(ping.padEnd(1_048_577))).status, 413);
      assert.equal((await sluice.mcp(Array(100).fill(request("ping")))).json.length, 100);
      assert.equal((await sluice.mcp(Array(101).fill(request("ping")))).status, 400);
      assert.equal((await sluice.mcp(ping, { headers: { origin: "http://localhost:3000" } })).status, 200);
    },
  ));

test("a variable that isn't ours is left alone", () =>
  withVars({ OTHER: "x", XMCP_RATE_LIMIT: "x", mcp_rate_limit: "x" }, async (sluice) => ran(await call(sluice, echo()))));

describe("a fault of the configuration", () => {
  // Native tests try more values; these are of each kind in which a value arrives.
  for (const [variable, value, what = /./] of [
    ["MCP_RATE_LIMIT", "abc", /"abc"/],
    ["MCP_RATE_LIMIT", ""],
    ["MCP_RATE_LIMIT", -1],
    ["MCP_RATE_LIMIT", true],
    ["MCP_RATE_LIMIT_BURST", "0"],
    ["MCP_RATE_LIMIT_BURST", 1.5],
    ["MCP_CALLER", "token", /MCP_JWT_SECRET or MCP_JWKS_URL/],
    ["MCP_CALLER", "session", /"address" or "token"/],
    ["MCP_ANONYMOUS", "allow", /"refuse"/],
    ["MCP_TOKEN_UNVERIFIED", "yes", /"digest"/],
    ["MCP_JWKS_URL", "http://issuer.example/jwks.json", /https/],
    ["MCP_JWT_ISSUER", {}],
    ["MCP_JWT_AUDIENCE", ["a"]],
    ["MCP_JWT_SECRET", "secret", /32 bytes/],
    ["MCP_CALLER_CLAIMS", ""],
    ["MCP_AUTHORIZATION_SERVERS", "issuer.example"],
    ["MCP_REFUSAL", "429", /"result" or "http"/],
    ["MCP_FAIL", "shut", /"open"/],
    ["MCP_LIMITER_TIMEOUT_MS", "1s"],
    ["MCP_MAX_REQUEST_BODY", "1MB"],
    ["MCP_MAX_BATCH", 0],
    ["MCP_ALLOWED_ORIGINS", "https://app.example"],
    ["MCP_ADMIN_TOKEN", ""],
    ["MCP_TOOLS", "{"],
    ["MCP_TOOLS", []],
    ["MCP_TOOLS", { nope: {} }, /MCP_TOOLS\.nope\b.*\becho\b/],
    ["MCP_TOOLS", { test_simple_text: {} }, /MCP_TOOLS\.test_simple_text\b/],
    ["MCP_TOOLS", { echo: { costs: 1 } }, /MCP_TOOLS\.echo\.costs\b/],
    ["MCP_TOOLS", { echo: { quota: "1/week" } }, /MCP_TOOLS\.echo\.quota: .*minute, hour, day, month/],
    ["MCP_TOOLS", { echo: { rate: 1, burst: 4, cost: 5 } }, /MCP_TOOLS\.echo\.cost: .*\b5\b.*\b4\b/],
    ["MCP_TOOLS", { echo: { status_tool: "nope" } }, /MCP_TOOLS\.echo\.status_tool\b/],
    ["MCP_QUOTA", "1000", /1000\/day/],
    ["MCP_MAX_IN_FLIGHT", "-1"],
    ["MCP_LEASE_SECONDS", 0],
    ["MCP_MAX_WAIT_MS", "2s"],
    ["MCP_RATE_LIMIT_ANONYMOUS", "many"],
    ["MCP_RATE_LIMIT_SHARED", ""],
    ["MCP_PLAN_CLAIM", []],
    ["MCP_PLANS", "[]"],
    ["MCP_PLANS", { pro: { price: 1 } }, /MCP_PLANS\.pro\.price\b/],
    ["MCP_TOOLS", { echo: { cost: 1.5 } }, /MCP_TOOLS\.echo\.cost\b/],
    ["MCP_TOOLS", { echo: { cost: 31 } }, /MCP_TOOLS\.echo\.cost: .*\b31\b.*\b30\b/],
    ["MCP_TOOLS", '{"search_docs":{"cost":"31"}}', /MCP_TOOLS\.search_docs\.cost: .*\b31\b.*\b30\b/],
    ["MCP_TOOLS", { echo: { fail: "shut" } }, /MCP_TOOLS\.echo\.fail\b/],
    ["MCP_UPSTREAM", "ftp://behind.example/mcp"],
    ["MCP_UPSTREAM", "UPSTREAM"],
    ["MCP_UPSTREAM_AUTH", "basic"],
    ["MCP_UPSTREAM_TIMEOUT_MS", "0"],
    ["MCP_UPSTREAM_TOKEN", "two words"],
    ["MCP_MAX_IN_FLIGHT_SESSION", 1],
    // Names that nobody reads.
    ["MCP_RATE_LIMITS", "1"],
    ["MCP_rate_limit", "1"],
  ]) {
    const shown = JSON.stringify(value);
    test(`${variable} = ${shown} is told by /mcp, by /healthz and in the log, once`, () =>
      withVars({ [variable]: value }, async (sluice) => {
        const answer = await call(sluice, echo());
        assert.deepEqual([answer.status, answer.error?.code], [500, -32603], answer.text);
        assert.ok(!("id" in answer.json) || answer.json.id === 1);
        const { message } = answer.error;
        assert.match(message, new RegExp(`\\b${variable}(?![A-Za-z_])`));
        assert.match(message, what);

        const health = await sluice.fetch("/healthz");
        assert.equal(health.status, 503);
        assert.equal((await health.json()).error, message);
        assert.equal((await call(sluice, request("ping"))).error.message, message);

        const lines = await sluice.logged(/configuration_fault/);
        assert.deepEqual(lines.map(({ level }) => level), ["error"]);
        const fault = JSON.parse(lines[0].message).fault;
        assert.ok(fault.includes(variable) && message.includes(fault), fault);
      }));
  }

  test("of tokens that are verified and not verified at the same time names the variable", () =>
    withVars(
      { MCP_CALLER: "token", MCP_TOKEN_UNVERIFIED: "digest", MCP_JWKS_URL: "https://issuer.example/jwks.json" },
      async (sluice) => {
        const { status, error } = await call(sluice, echo());
        assert.equal(status, 500);
        assert.match(error.message, /MCP_TOKEN_UNVERIFIED: /);
      },
    ));

  test("is over when it is mended", () =>
    withVars({ MCP_RATE_LIMIT: "fast" }, async (sluice) => {
      assert.equal((await call(sluice, echo())).status, 500);
      await sluice.update({ vars: { MCP_RATE_LIMIT: "0.5" } });
      ran(await call(sluice, echo()));
      assert.deepEqual(await (await sluice.fetch("/healthz")).json(), { status: "ok" });
    }));
});

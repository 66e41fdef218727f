// Who is the caller with MCP_CALLER=token: what is accepted, what isn't, and what either leaves behind.
import assert from "node:assert/strict";
import { createHash, sign as signWith } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { atOnce, message, metrics, nameOf, ran, refusalOf, request } from "./calls.mjs";
import { start } from "./harness.mjs";
import { compact, fromNow, hmac, makeKey, publish, signed } from "./issuer.mjs";

const ISSUER = "https://issuer.example";
const AUDIENCE = "https://sluice.example/mcp";
const SECRET = "0123456789abcdef0123456789abcdef";
const SERVERS = "https://issuer.example,https://other.example/tenant";

// One set of keys for the file: RSA keys take long to make.
const rsa = makeKey("RS256");
const ec = makeKey("ES256");
const ed = makeKey("EdDSA");

const claims = (more = {}) => ({ iss: ISSUER, aud: AUDIENCE, sub: "alice", exp: fromNow(600), ...more });
const bearer = (token) => ({ authorization: `Bearer ${token}` });

/** Calls echo with a token. */
const call = (sluice, token, more = {}) => sluice.mcp(message(), { headers: { ...bearer(token), ...more } });
const remaining = (answer) => answer.result?._meta["sluice/allowance"].remaining;

const digest = (...parts) => createHash("sha256").update(parts.join("")).digest("base64url");
const objectOf = (claim, value, issuer = ISSUER) => `token:${digest(...[issuer, claim, value].map((part) => `${part}\0`))}`;

/** Vars for keys of an issuer; buckets that refill slowly, so that counts are exact. */
const byKeys = (issuer, more = {}) => ({
  ...{ MCP_CALLER: "token", MCP_JWKS_URL: issuer.url, MCP_JWT_ISSUER: ISSUER, MCP_JWT_AUDIENCE: AUDIENCE },
  ...{ MCP_RATE_LIMIT: "0.01", ...more },
});
const bySecret = (more = {}) => ({ MCP_CALLER: "token", MCP_JWT_SECRET: SECRET, MCP_RATE_LIMIT: "0.01", ...more });
const byDigest = (more = {}) => ({ MCP_CALLER: "token", MCP_TOKEN_UNVERIFIED: "digest", MCP_RATE_LIMIT: "0.01", ...more });

async function withVars(vars, use) {
  await using sluice = await start({ vars });
  await use(sluice);
}

function accepted(answer) {
  assert.ok(ran(answer), `${answer.status} ${answer.headers.get("www-authenticate")} ${answer.text}`);
}

/** A 401 that tells this, and nothing of the token. */
function refused(answer, description, token) {
  assert.equal(answer.status, 401, answer.text);
  const challenge = answer.headers.get("www-authenticate");
  if (description === undefined) assert.doesNotMatch(challenge, /error/);
  else assert.ok(challenge.startsWith(`Bearer error="invalid_token", error_description="${description}"`), challenge);
  assert.deepEqual(Object.keys(answer.json.error), ["code", "message"]);
  assert.equal(answer.error.code, -32600);
  if (token) for (const part of token.split(".").filter((part) => part.length > 3)) assert.ok(!answer.text.includes(part) && !challenge.includes(part));
}

describe("a token", () => {
  let issuer;
  let sluice;
  before(async () => {
    issuer = await publish(rsa, ec, ed);
    // Without the flood gate, which would turn most of 10,000 requests from one address away before their token is looked at.
    const vars = byKeys(issuer, { MCP_JWT_SECRET: SECRET, MCP_AUTHORIZATION_SERVERS: SERVERS });
    sluice = await start({ vars, config: { ratelimits: [] } });
  });
  after(async () => {
    await sluice?.close();
    await issuer?.close();
  });

  for (const key of [rsa, ec, ed]) {
    test(`of ${key.alg} is verified with the key that it names, or with the only one that fits`, async () => {
      accepted(await call(sluice, signed(key, claims())));
      accepted(await call(sluice, signed(key, claims(), { kid: undefined })));
    });
  }

  test("of HS256 is verified with the secret", async () => {
    accepted(await call(sluice, hmac(SECRET, claims())));
    const token = hmac(`${SECRET}x`, claims());
    refused(await call(sluice, token), "the token's signature does not fit", token);
  });

  // The known attacks. Each is checked to leave no object behind: its subject is one of its own.
  let victim = 0;
  const attacks = {
    "that is unsigned (alg none)": (claims) => [compact({ alg: "none" }, claims, () => ""), "the token's algorithm is not accepted"],
    "that is unsigned (alg nOnE, with a signature)": (claims) => [
      compact({ alg: "nOnE", kid: rsa.kid }, claims, () => "x"),
      "the token's algorithm is not accepted",
    ],
    "without a signature": (claims) => [signed(rsa, claims).replace(/[^.]*$/, ""), "the token's signature does not fit"],
    "of HS256 with the RSA public key as its secret": (claims) => [
      hmac(rsa.publicKey.export({ type: "spki", format: "pem" }), claims, { kid: rsa.kid }),
      "the token's signature does not fit",
    ],
    "of HS256 with the published key as its secret": (claims) => [
      hmac(JSON.stringify(rsa.jwk), claims, { kid: rsa.kid }),
      "the token's signature does not fit",
    ],
    "of another issuer": (claims) => [signed(rsa, { ...claims, iss: "https://evil.example" }), "the token's issuer is not accepted"],
    "without an issuer": (claims) => [signed(rsa, { ...claims, iss: undefined }), "the token's issuer is not accepted"],
    "for another audience": (claims) => [signed(rsa, { ...claims, aud: "https://else.example" }), "the token is not meant for this server"],
    "for a longer audience": (claims) => [signed(rsa, { ...claims, aud: `${AUDIENCE}/x` }), "the token is not meant for this server"],
    "for several others": (claims) => [signed(rsa, { ...claims, aud: ["a", "b"] }), "the token is not meant for this server"],
    "for nobody": (claims) => [signed(rsa, { ...claims, aud: undefined }), "the token is not meant for this server"],
    "that has expired": (claims) => [signed(rsa, { ...claims, exp: fromNow(-62) }), "the token has expired"],
    "that expires in words": (claims) => [signed(rsa, { ...claims, exp: "never" }), "the token is malformed"],
    "that isn't valid yet": (claims) => [signed(rsa, { ...claims, nbf: fromNow(70) }), "the token is not valid yet"],
    "whose payload was changed": (claims) => {
      const [header, , signature] = signed(rsa, { ...claims, sub: "mallory" }).split(".");
      const [, payload] = signed(rsa, claims).split(".");
      return [`${header}.${payload}.${signature}`, "the token's signature does not fit"];
    },
    "whose header was changed": (claims) => {
      const [, payload, signature] = signed(rsa, claims).split(".");
      const [header] = signed(rsa, claims, { typ: "at+jwt" }).split(".");
      return [`${header}.${payload}.${signature}`, "the token's signature does not fit"];
    },
    "whose kid is a path": (claims) => [signed(rsa, claims, { kid: "../../../../dev/null" }), "the token's key is not known"],
    "whose kid is a query": (claims) => [signed(rsa, claims, { kid: "x' UNION SELECT 'key" }), "the token's key is not known"],
    "whose kid is no text": (claims) => [signed(rsa, claims, { kid: 1 }), "the token is malformed"],
    "that brings its own key": (claims) => {
      const own = makeKey("ES256", "own");
      return [signed(own, claims, { jwk: own.jwk, jku: "https://evil.example/jwks.json" }), "the token's key is not known"];
    },
    "that is too large": (claims) => [signed(rsa, { ...claims, more: "x".repeat(8_192) }), "the token is too large"],
    "with crit": (claims) => [signed(rsa, claims, { crit: ["exp"], exp: 1 }), "the token demands an extension that is not understood"],
    "of an algorithm that nobody knows": (claims) => [signed(rsa, claims, { alg: "XS256" }), "the token's algorithm is not accepted"],
    "of RS512": (claims) => [signed(rsa, claims, { alg: "RS512" }), "the token's algorithm is not accepted"],
    "of ES256 with a signature in DER": (claims) => [
      compact({ alg: "ES256", kid: ec.kid }, claims, (data) => signWith("sha256", data, ec.privateKey)),
      "the token's signature does not fit",
    ],
    "of ES256 whose signature is zero": (claims) => [
      compact({ alg: "ES256", kid: ec.kid }, claims, () => Buffer.alloc(64)),
      "the token's signature does not fit",
    ],
    "of RS256 under an EC key's kid": (claims) => [signed(rsa, claims, { kid: ec.kid }), "the token's algorithm is not accepted"],
    "of EdDSA under an EC key's kid": (claims) => [signed(ed, claims, { kid: ec.kid }), "the token's algorithm is not accepted"],
    "of a key that isn't published": (claims) => [signed(makeKey("EdDSA", ed.kid), claims), "the token's signature does not fit"],
    "that names nobody": (claims) => [signed(rsa, { ...claims, sub: undefined }), "the token names no caller"],
    "whose names are no names": (claims) => [signed(rsa, { ...claims, sub: "", client_id: null, jti: 1.5 }), "the token names no caller"],
    "whose claims come twice": (claims) => [
      signed(rsa, JSON.stringify(claims).replace("{", '{"sub":"root",')),
      "the token is malformed",
    ],
    "with padding": (claims) => [`${signed(rsa, claims)}=`, "the token is malformed"],
    "of five parts": (claims) => [`${signed(rsa, claims)}.a.b`, "the token is malformed"],
    "that is no JWT": () => ["s3cret", "the token is malformed"],
  };
  for (const [what, attack] of Object.entries(attacks)) {
    test(`${what} is refused and makes no object`, async () => {
      victim += 1;
      const [token, description] = attack(claims({ sub: `victim ${victim}` }));
      refused(await call(sluice, token), description, token);
      assert.ok(!(await sluice.objects()).includes(await sluice.id(objectOf("sub", `victim ${victim}`))));
    });
  }

  test("has a minute of leeway at both ends", async () => {
    accepted(await call(sluice, signed(ed, claims({ exp: fromNow(-50) }))));
    accepted(await call(sluice, signed(ed, claims({ nbf: fromNow(50) }))));
    accepted(await call(sluice, signed(ed, claims({ exp: undefined }))));
    accepted(await call(sluice, signed(ed, claims({ aud: ["https://else.example", AUDIENCE] }))));
  });

  test("that is refreshed keeps its bucket; another subject, and another claim, have their own", async () => {
    const sub = "bob";
    assert.equal(remaining(await call(sluice, signed(rsa, claims({ sub, jti: "1" })))), 29);
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub, jti: "2", exp: fromNow(900) })))), 28);
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: "carol" })))), 29);
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: undefined, client_id: sub })))), 29);
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: undefined, jti: sub })))), 29);
    const objects = await sluice.objects();
    for (const claim of ["sub", "client_id", "jti"]) assert.ok(objects.includes(await sluice.id(objectOf(claim, sub))), claim);
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: 42 })))), 29);
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: "42" })))), 28);
  });

  test("names the caller, and neither session, client, forwarded address nor address do", async () => {
    let left = 30;
    for (const more of [
      { "mcp-session-id": "a" },
      { "mcp-session-id": "b" },
      { "x-forwarded-for": "198.51.100.1" },
      { "x-forwarded-for": "198.51.100.2", "cf-connecting-ip": "198.51.100.3" },
      { "user-agent": "other/1.0", cookie: "session=c" },
    ]) {
      left -= 1;
      assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: "dave" })), more)), left, JSON.stringify(more));
    }
    const initialize = (name) =>
      request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name, version: "1" } });
    for (const name of ["x", "y"]) {
      assert.equal((await sluice.mcp(initialize(name), { headers: bearer(signed(ed, claims({ sub: "dave" }))) })).status, 200);
    }
    assert.equal(remaining(await call(sluice, signed(ed, claims({ sub: "dave" })))), left - 1);
  });

  test("is one caller in metrics, by kind and group", async () => {
    const token = signed(ed, claims({ sub: "greedy" }));
    const answers = await atOnce(35, () => call(sluice, token));
    assert.equal(answers.filter(ran).length, 30);
    assert.ok(answers.every((answer) => ran(answer) || refusalOf(answer).allowance === "caller"));
    const seen = await metrics(sluice);
    const name = createHash("sha256").update(objectOf("sub", "greedy")).digest("hex");
    const series = `mcp_rate_limited_total{tool="echo",reason="rate",allowance="caller",caller="token",bucket="${name[0]}"}`;
    assert.equal(seen[series], 5, JSON.stringify(seen));
  });

  describe("that is missing or wrong", () => {
    const metadata = () => `resource_metadata="${sluice.url.origin}/.well-known/oauth-protected-resource/mcp"`;

    test("is told in a challenge, with where tokens are to be had", async () => {
      const none = await sluice.mcp(message());
      refused(none);
      assert.equal(none.headers.get("www-authenticate"), `Bearer ${metadata()}`);
      assert.equal(none.json.id, 1);
      const wrong = await call(sluice, "x");
      const error = 'error="invalid_token", error_description="the token is malformed"';
      assert.equal(wrong.headers.get("www-authenticate"), `Bearer ${error}, ${metadata()}`);
    });

    test("is told whatever is posted, and what can't be read is told first", async () => {
      for (const posted of [
        request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } }),
        request("ping"),
        request("tools/list"),
        request("nothing/like/this"),
        message("no_such_tool", {}),
        { jsonrpc: "2.0", method: "notifications/initialized" },
        { jsonrpc: "2.0", id: 1, result: {} },
        [request("ping"), message()],
      ]) {
        refused(await sluice.mcp(posted));
        refused(await sluice.mcp(posted, { headers: bearer("x") }), "the token is malformed");
      }
      assert.equal((await sluice.mcp("{")).status, 400);
      assert.equal((await sluice.mcp([])).status, 400);
    });

    test("may have Bearer in any case, once, and nothing else", async () => {
      const token = signed(ed, claims());
      for (const authorization of [`bearer ${token}`, `BEARER  ${token} `]) accepted(await sluice.mcp(message(), { headers: { authorization } }));
      for (const authorization of [`Bearer ${token}, Bearer ${token}`, `Bearer ${token} ${token}`, "Bearer", "Bearer ,"]) {
        refused(await sluice.mcp(message(), { headers: { authorization } }), "the token is malformed");
      }
      for (const authorization of [`Basic ${token}`, token, ""]) refused(await sluice.mcp(message(), { headers: { authorization } }));
      const body = JSON.stringify(message());
      const twice = await sluice.raw(
        `POST /mcp HTTP/1.1\r\nHost: ${sluice.url.host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n` +
          `Authorization: Bearer ${token}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n${body}`,
      );
      assert.match(twice, /^HTTP\/1\.1 40[01] /);
    });

    test("may be read by a page that is let in", async () => {
      const answer = await sluice.mcp(message(), { headers: { origin: "http://localhost:3000" } });
      assert.equal(answer.headers.get("access-control-allow-origin"), "http://localhost:3000");
      assert.match(answer.headers.get("access-control-expose-headers"), /WWW-Authenticate/);
    });
  });

  test("is to be had where the protected-resource document says, to every origin", async () => {
    const path = "/.well-known/oauth-protected-resource/mcp";
    const answer = await sluice.fetch(path, { headers: { origin: "https://anywhere.example" } });
    assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "application/json"]);
    assert.equal(answer.headers.get("access-control-allow-origin"), "https://anywhere.example");
    assert.deepEqual(await answer.json(), {
      resource: `${sluice.url.origin}/mcp`,
      authorization_servers: SERVERS.split(","),
      bearer_methods_supported: ["header"],
    });
    assert.equal((await sluice.fetch(path, { method: "OPTIONS", headers: { origin: "https://anywhere.example" } })).status, 204);
    assert.equal((await sluice.fetch(path, { method: "POST" })).status, 405);
    assert.equal((await sluice.fetch("/.well-known/oauth-protected-resource")).status, 404);
  });

  test("that is made up 10,000 times leaves no object and no growing state", async () => {
    const before = await sluice.objects();
    const { fetches } = issuer;
    const started = Date.now();
    const random = () => createHash("sha256").update(String(Math.random())).digest("base64url");
    const [header, payload] = signed(ed, claims({ sub: "nobody" })).split(".");
    const kinds = [
      () => random(),
      () => `${random()}.${random()}.${random()}`,
      () => `${header}.${payload}.${random()}${random()}`,
      () => compact({ alg: "EdDSA", kid: random() }, claims({ sub: random() }), () => random()),
      () => hmac(random(), claims({ sub: random() })),
    ];
    for (let sent = 0; sent < 10_000; sent += 250) {
      const answers = await atOnce(250, (index) => call(sluice, kinds[index % kinds.length]()));
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [401]);
    }
    assert.deepEqual((await sluice.objects()).sort(), before.sort());
    const most = 1 + Math.ceil((Date.now() - started) / 60_000);
    assert.ok(issuer.fetches - fetches <= most, `${issuer.fetches - fetches} fetches, not ${most}`);
    accepted(await call(sluice, signed(ed, claims({ sub: "afterwards" }))));
  });
});

describe("keys", { concurrency: true }, () => {
  // The harness sends what the Worker fetches on with Node's fetch, which would follow redirects whatever the Worker said: here that is
  // left to the Worker.
  const nodes = globalThis.fetch;
  before(() => {
    globalThis.fetch = (url, init) => (init instanceof Object && "url" in init ? nodes(new Request(url, init), { redirect: "manual" }) : nodes(url, init));
  });
  after(() => {
    globalThis.fetch = nodes;
  });

  test("that change while the server runs are known after one fetch, and nothing makes more than one a minute", async () => {
    await using issuer = await publish(ed);
    await withVars(byKeys(issuer, { MCP_RATE_LIMIT_BURST: "1000" }), async (sluice) => {
      const first = await atOnce(20, () => call(sluice, signed(ed, claims())));
      first.forEach(accepted);
      assert.equal(issuer.fetches, 1, "those that came meanwhile waited for it");
      const started = Date.now();
      const next = makeKey("EdDSA", "next");
      issuer.keys = [next];
      const bad = await atOnce(50, (index) => call(sluice, signed(ed, claims(), { kid: `bad ${index}` })));
      for (const answer of bad) refused(answer, "the token's key is not known");
      refused(await call(sluice, signed(next, claims())), "the token's key is not known");
      assert.equal(issuer.fetches, 1);

      await sleep(started + 61_000 - Date.now());
      const both = await atOnce(60, (index) =>
        index % 2 ? call(sluice, signed(next, claims())) : call(sluice, signed(ed, claims(), { kid: `bad ${index}` })));
      both.forEach((answer, index) => (index % 2 ? accepted(answer) : refused(answer, "the token's key is not known")));
      assert.equal(issuer.fetches, 2);
      refused(await call(sluice, signed(ed, claims())), "the token's key is not known");

      // The server goes, and the keys stay.
      await issuer.close();
      await sleep(started + 122_500 - Date.now());
      refused(await call(sluice, signed(ed, claims())), "the token's key is not known");
      accepted(await call(sluice, signed(next, claims())));
      assert.equal((await sluice.logged(/jwks_failure/)).length, 1);
    });
  });

  test("that can't be had are a 503, one log line and one attempt a minute", async () => {
    const issuer = await publish();
    await issuer.close();
    await withVars(byKeys(issuer), async (sluice) => {
      const token = signed(ed, claims());
      const answers = await atOnce(20, () => call(sluice, token));
      for (const { status, headers, error } of answers) {
        assert.deepEqual([status, headers.get("retry-after"), headers.get("www-authenticate")], [503, "5", null]);
        assert.deepEqual(error, { code: -32603, message: "Tokens can't be verified at the moment." });
      }
      const [line, ...others] = await sluice.logged(/jwks_failure/);
      assert.deepEqual([line.level, others.length], ["error", 0]);
      assert.deepEqual(Object.keys(JSON.parse(line.message)), ["event", "cause"]);
      assert.ok(!sluice.logs().some(({ message }) => message.includes(token.split(".")[2])));
      assert.deepEqual(await sluice.objects(), []);
      // What is over needs no key.
      refused(await call(sluice, signed(ed, claims({ exp: 1 }))), "the token has expired");

      // The server comes back.
      await using back = await publish(ed);
      await sluice.update({ vars: { MCP_JWKS_URL: back.url } });
      accepted(await call(sluice, token));
    });
  });

  for (const [what, answer, cause] of [
    ["a redirect", (_, response) => response.writeHead(302, { location: "/elsewhere" }).end(), /status 302/],
    ["an error", (_, response) => response.writeHead(500).end(), /status 500/],
    ["no JSON", (_, response) => response.end("<html>"), /isn't JSON/],
    ["too much", (_, response) => response.end(`{"keys":[],"x":"${"x".repeat(300_000)}"}`), /more than 262144 bytes/],
    ["no key of use", (_, response) => response.end('{"keys":[{"kty":"oct","k":"AAAA"}]}'), /no key/],
    ["nothing, for ever", () => {}, /no answer within 5000 ms/],
  ]) {
    test(`are not had from a server that answers ${what}`, async () => {
      await using issuer = await publish(ed);
      issuer.answer = answer;
      await withVars(byKeys(issuer), async (sluice) => {
        const started = Date.now();
        const answers = await atOnce(5, () => call(sluice, signed(ed, claims())));
        assert.deepEqual(answers.map(({ status }) => status), Array(5).fill(503));
        assert.ok(Date.now() - started < 8_000);
        assert.equal(issuer.fetches, 1);
        const [line, ...others] = await sluice.logged(/jwks_failure/);
        assert.match(JSON.parse(line.message).cause, cause);
        assert.equal(others.length, 0);
      });
    });
  }
});

describe("without a token", () => {
  const anonymous = (sluice, address) => sluice.mcp(message(), { address });

  for (const [form, vars] of [
    ["MCP_JWT_SECRET", bySecret],
    ["MCP_TOKEN_UNVERIFIED", byDigest],
  ]) {
    test(`MCP_ANONYMOUS decides, under ${form} too`, () =>
      withVars(vars(), async (sluice) => {
        refused(await anonymous(sluice, "192.0.2.1"));

        await sluice.update({ vars: { MCP_ANONYMOUS: "address" } });
        assert.equal(remaining(await anonymous(sluice, "192.0.2.1")), 29);
        assert.equal(remaining(await anonymous(sluice, "192.0.2.2")), 29);
        assert.equal(remaining(await anonymous(sluice, "192.0.2.1")), 28);
        assert.ok((await sluice.objects()).includes(await sluice.id(nameOf("192.0.2.1"))));

        await sluice.update({ vars: { MCP_ANONYMOUS: "shared", MCP_RATE_LIMIT_ANONYMOUS: "0.001", MCP_RATE_LIMIT_BURST: "3" } });
        const left = [];
        for (let host = 1; host <= 3; host += 1) left.push(remaining(await anonymous(sluice, `192.0.2.${host}`)));
        assert.deepEqual(left, [2, 1, 0]);
        assert.equal(refusalOf(await anonymous(sluice, "192.0.2.9")).reason, "rate");
        assert.ok((await sluice.objects()).includes(await sluice.id("anonymous")));
        const limited = Object.keys(await metrics(sluice)).filter((name) => name.startsWith("mcp_rate_limited"));
        assert.equal(limited.length, 1);
        assert.match(limited[0], /caller="shared"/);

        // A wrong token is no missing one.
        for (const authorization of ["Bearer", "Bearer a,b", "Basic YTpi"]) {
          assert.equal((await sluice.mcp(message(), { headers: { authorization } })).status, 401, authorization);
        }
      }));
  }

  test("the kind of caller is anonymous in metrics, where each has its address", () =>
    withVars(bySecret({ MCP_ANONYMOUS: "address", MCP_RATE_LIMIT_BURST: "1" }), async (sluice) => {
      accepted(await anonymous(sluice, "192.0.2.1"));
      assert.equal(refusalOf(await anonymous(sluice, "192.0.2.1")).reason, "rate");
      assert.match(Object.keys(await metrics(sluice)).join(), /mcp_rate_limited_total\{[^}]*caller="anonymous",bucket="6"\}/);
    }));
});

describe("digest", () => {
  test("keys by a digest, and the token is nowhere", () =>
    withVars(byDigest({ MCP_RATE_LIMIT_BURST: "2" }), async (sluice) => {
      const token = "sk-0123456789.of+any/form==";
      assert.equal(remaining(await call(sluice, token)), 1);
      assert.equal(remaining(await call(sluice, token)), 0);
      assert.equal(refusalOf(await call(sluice, token)).reason, "rate");
      assert.equal(remaining(await call(sluice, "another")), 1);
      const names = [`digest:${digest(token)}`, `digest:${digest("another")}`, "shared"];
      const ids = await Promise.all(names.map((name) => sluice.id(name)));
      assert.deepEqual((await sluice.objects()).sort(), ids.sort());
      const text = await (await sluice.fetch("/metrics")).text();
      assert.match(text, /caller="token"/);
      const stored = JSON.stringify((await sluice.databases()).map(({ row }) => row));
      const logs = JSON.stringify(sluice.logs());
      for (const part of [token, "sk-0123456789", digest(token)]) {
        for (const place of [text, stored, logs]) assert.ok(!place.includes(part), part);
      }
      refused(await call(sluice, "x".repeat(8_193)), "the token is too large");
    }));
});

describe("each variable is read", () => {
  const use = (vars, token) => withVars(bySecret(vars), async (sluice) => accepted(await call(sluice, token)));
  const refuse = (vars, token, description) =>
    withVars(bySecret(vars), async (sluice) => refused(await call(sluice, token), description));

  test("MCP_JWT_ISSUER and MCP_JWT_AUDIENCE, which needn't be there", async () => {
    const bare = hmac(SECRET, { sub: "alice" });
    await use({}, bare);
    await refuse({ MCP_JWT_ISSUER: ISSUER }, bare, "the token's issuer is not accepted");
    await refuse({ MCP_JWT_AUDIENCE: AUDIENCE }, bare, "the token is not meant for this server");
  });

  test("MCP_JWT_SECRET and MCP_JWKS_URL, each for its own algorithms", async () => {
    await refuse({}, signed(rsa, claims()), "the token's algorithm is not accepted");
    await using issuer = await publish(rsa);
    await withVars(byKeys(issuer), async (sluice) => {
      const pem = rsa.publicKey.export({ type: "spki", format: "pem" });
      for (const secret of [SECRET, pem, pem.trim(), JSON.stringify(rsa.jwk), rsa.jwk.n, ""]) {
        refused(await call(sluice, hmac(secret, claims())), "the token's algorithm is not accepted");
      }
      accepted(await call(sluice, signed(rsa, claims())));
    });
  });

  test("MCP_CALLER_CLAIMS, in its order", () =>
    withVars(bySecret({ MCP_CALLER_CLAIMS: "azp, sub" }), async (sluice) => {
      accepted(await call(sluice, hmac(SECRET, { iss: "i", sub: "alice", azp: "app" })));
      accepted(await call(sluice, hmac(SECRET, { sub: "alice" })));
      refused(await call(sluice, hmac(SECRET, { client_id: "app" })), "the token names no caller");
      const ids = [await sluice.id(objectOf("azp", "app", "i")), await sluice.id(objectOf("sub", "alice", ""))];
      assert.deepEqual((await sluice.objects()).sort(), ids.sort());
    }));

  test("MCP_AUTHORIZATION_SERVERS: without it there is no document, and no pointer to one", () =>
    withVars(bySecret(), async (sluice) => {
      assert.equal((await sluice.fetch("/.well-known/oauth-protected-resource/mcp")).status, 404);
      assert.equal((await sluice.mcp(message())).headers.get("www-authenticate"), "Bearer");
    }));

  test("MCP_CALLER of address ignores tokens, whatever else is set", () =>
    withVars({ ...bySecret({ MCP_JWKS_URL: "https://issuer.example/jwks.json", MCP_AUTHORIZATION_SERVERS: SERVERS }), MCP_CALLER: "address" }, async (sluice) => {
      for (const [authorization, left] of [["Bearer x", 29], ["Basic YTpi", 28], ["", 27]]) {
        const answer = await sluice.mcp(message(), { address: "192.0.2.1", headers: { authorization } });
        assert.equal(remaining(answer), left);
      }
      assert.deepEqual(await sluice.objects(), [await sluice.id(nameOf("192.0.2.1"))]);
      assert.equal((await sluice.fetch("/.well-known/oauth-protected-resource/mcp")).status, 404);
    }));
});

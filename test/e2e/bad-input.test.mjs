// Whatever a socket can carry gets a clear answer and changes nothing: no token is spent, and the next call runs.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, describe, test } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { start } from "./harness.mjs";
import { start as startPlain } from "./workerd.mjs";

const LIMIT = 1_048_576;
const MODERN = "2026-07-28";

// No token comes back while these tests run, so that what is left can be told exactly.
const vars = { MCP_RATE_LIMIT: "0.001" };

let sluice;
let plain;
before(async () => {
  sluice = await start({ vars });
  // Where the sockets are workerd's own.
  plain = await startPlain({ vars });
});
after(() => Promise.all([sluice?.close(), plain?.close()]));

let callers = 0;
const newcomer = () => `203.0.${113 + (callers >> 8)}.${callers++ & 255}`;

const request = (method, params, id = 1) => ({ jsonrpc: "2.0", id, method, ...(params !== undefined && { params }) });
const echo = (id = 1) => request("tools/call", { name: "echo", arguments: { text: "hello" } }, id);
const PING = JSON.stringify(request("ping"));
const ECHO = JSON.stringify(echo());
const call = (argumentsText) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":${argumentsText}}}`;
const bytes = (...parts) => Buffer.concat(parts.map((part) => Buffer.from(part)));

/** A good call, and what it left. */
async function goodCall(address, worker = sluice) {
  const { status, text, result } = await worker.mcp(echo(), { address });
  assert.equal(status, 200, text);
  assert.deepEqual(result.content, [{ type: "text", text: "hello" }]);
  return result._meta["sluice/allowance"].remaining;
}

/** Has `send` do its worst between two good calls of one caller, and checks that only those two were paid for. */
async function changesNothing(send) {
  const address = newcomer();
  const remaining = await goodCall(address);
  await send(address);
  assert.equal(await goodCall(address), remaining - 1, "only good calls are paid for");
}

function isRefused(answer, status, code, message = /./) {
  assert.deepEqual([answer.status, answer.error?.code], [status, code], `${answer.status} ${answer.text.slice(0, 500)}`);
  assert.match(answer.error.message, message);
  assert.ok(answer.text.length < 2_000, "an answer is short, whatever was sent");
}

/** A test that `body` is refused with this status and code, and changes nothing. */
function refused(name, body, status, code, { headers, message } = {}) {
  test(name, () => changesNothing(async (address) => isRefused(await sluice.mcp(body, { address, headers }), status, code, message)));
}

/** A test that a POST with these headers gets a bare status, and changes nothing. */
function turnedAway(name, body, status, headers) {
  test(name, () =>
    changesNothing(async (address) => {
      const answer = await sluice.mcp(body, { address, headers });
      assert.deepEqual([answer.status, answer.text], [status, ""]);
    }));
}

/** A POST as bytes, with header lines as they are. */
function post(lines, body, { length = Buffer.byteLength(body) } = {}) {
  const head = ["POST /mcp HTTP/1.1", "Host: localhost", "Connection: close", ...lines];
  if (length !== undefined) head.push(`Content-Length: ${length}`);
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}
const JSON_TYPE = "Content-Type: application/json";
const statusOf = (answer) => Number(answer.match(/^HTTP\/1\.1 (\d{3}) /)?.[1]);
const codeOf = (answer) => Number(answer.match(/"code":(-\d+)/)?.[1]);

describe("JSON that isn't", () => {
  for (const [what, body] of [
    ["nothing", ""],
    ["words", "not JSON"],
    ["half a call", ECHO.slice(0, -3)],
    ["a call and something after it", `${ECHO} x`],
    ["two calls, one a line", `${ECHO}\n${ECHO}`],
    ["a call with a comment", `${ECHO}/* so */`],
    ["a call with a comma too many", ECHO.replace(/\}$/, ",}")],
    ["a call in single quotes", ECHO.replaceAll('"', "'")],
    ["a call after a byte order mark", `\ufeff${ECHO}`],
    ["a call in UTF-16", Buffer.from(ECHO, "utf16le")],
    ["a call with a NUL in it", `${ECHO.slice(0, 30)}\0${ECHO.slice(30)}`],
    ["NUL bytes", Buffer.alloc(64)],
    ["NaN", call('{"text":NaN}')],
    ["Infinity", call('{"text":"a","n":-Infinity}')],
    ["a number with a zero before it", call('{"text":"a","n":01}')],
    ["a number beyond what any can be", call('{"text":"a","n":1e400}')],
    ["an id that is NaN", '{"jsonrpc":"2.0","id":NaN,"method":"ping"}'],
    ["an id beyond what any can be", '{"jsonrpc":"2.0","id":1e400,"method":"ping"}'],
    ["a line break in a text", call('{"text":"a\nb"}')],
    ["a lone high surrogate", call('{"text":"\\ud800"}')],
    ["a lone low surrogate", call('{"text":"a\\udc00b"}')],
    ["surrogates the wrong way round", call('{"text":"\\ude00\\ud83d"}')],
    ["a lone surrogate as a name", call('{"\\ud800":"a"}')],
    ["a lone surrogate as an id", '{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}'],
    ["a byte that is no UTF-8", bytes(call('{"text":"').slice(0, -2), [0xff], '"}}}')],
    ["a character cut in two", bytes(call('{"text":"').slice(0, -2), [0xe2, 0x82], '"}}}')],
    ["a slash written too long", bytes(call('{"text":"').slice(0, -2), [0xc0, 0xaf], '"}}}')],
    ["a surrogate in UTF-8", bytes(call('{"text":"').slice(0, -2), [0xed, 0xa0, 0x80], '"}}}')],
  ]) {
    refused(`${what} is a parse error`, body, 400, -32700, { message: /Parse error: ./ });
  }
});

describe("nesting of 100,000 levels", () => {
  const DEEP = 100_000;
  const arrays = "[".repeat(DEEP) + "]".repeat(DEEP);
  for (const [what, body] of [
    ["of open brackets", "[".repeat(DEEP)],
    ["of open braces", '{"a":'.repeat(DEEP)],
    ["of arrays by themselves", arrays],
    ["in arguments", call(`{"text":${arrays}}`)],
    ["of objects in arguments", call(`${'{"text":'.repeat(DEEP)}1${"}".repeat(DEEP)}`)],
    ["as an id", `{"jsonrpc":"2.0","id":${arrays},"method":"ping"}`],
    ["in a member that nobody reads", ECHO.replace(/\}$/, `,"extra":${arrays}}`)],
    ["in a batch", `[${ECHO},${arrays}]`],
  ]) {
    refused(`${what} is a parse error`, body, 400, -32700);
  }
});

describe("a member that comes twice", () => {
  for (const [what, body] of [
    ["an id", ECHO.replace('"id":1', '"id":1,"id":2')],
    ["a method", ECHO.replace('"id":1', '"id":1,"method":"ping"')],
    ["a tool's name", ECHO.replace('"name":', '"name":"list_decisions","name":')],
    ["an argument", call('{"text":"a","text":"b"}')],
    ["an argument, once in escapes", call('{"text":"a","\\u0074ext":"b"}')],
    ["something that nobody reads", ECHO.replace(/\}$/, ',"x":{"y":1,"y":1}}')],
    ["a member of one entry of a batch", `[${ECHO},${PING.replace('"id":1', '"id":1,"id":2')}]`],
  ]) {
    refused(`${what} is refused`, body, 400, -32600, { message: /comes twice/ });
  }
});

describe("what is JSON but no message", () => {
  for (const [what, body] of [
    ["an id of null", ECHO.replace('"id":1', '"id":null')],
    ["an id with a fraction", ECHO.replace('"id":1', '"id":1.5')],
    ["an id that is a whole fraction", ECHO.replace('"id":1', '"id":1.0')],
    ["an id with an exponent", ECHO.replace('"id":1', '"id":1e3')],
    ["an id that is an object", ECHO.replace('"id":1', '"id":{"a":1}')],
    ["an id that is true", ECHO.replace('"id":1', '"id":true')],
    ["a method that is no text", ECHO.replace('"tools/call"', "7")],
    ["a call of another version of JSON-RPC", ECHO.replace('"2.0"', '"2.1"')],
    ["a call in a text", JSON.stringify(ECHO)],
    ["an empty batch", "[]"],
    ["a batch in a batch", `[[${ECHO}]]`],
    ["a batch with a number in it", `[${ECHO},7]`],
    ["a batch of 10,000 calls", `[${Array(10_000).fill(ECHO).join()}]`],
    ["a batch of as many empty batches as fit in a body", `[${Array(340_000).fill("[]").join()}]`],
    ["a batch of one call too many", `[${Array(101).fill(ECHO).join()}]`],
  ]) {
    refused(`${what} is refused`, body.slice(0, LIMIT), 400, -32600);
  }
});

describe("params of the wrong type", () => {
  for (const params of [null, true, 7, "a", [], [1]]) {
    for (const method of ["tools/call", "tools/list", "initialize", "ping"]) {
      const body = JSON.stringify(request(method, params));
      refused(`${JSON.stringify(params)} for ${method} are invalid`, body, 200, -32602, { message: /params/ });
    }
  }

  for (const params of [
    ...[{}, { name: null }, { name: 7 }, { name: ["echo"] }],
    ...[{ name: "echo", arguments: null }, { name: "echo", arguments: "text" }, { name: "echo", arguments: [] }],
  ]) {
    const body = JSON.stringify(request("tools/call", params));
    refused(`a call of ${JSON.stringify(params)} is invalid`, body, 200, -32602, { message: /params\.(name|arguments)/ });
  }

  for (const name of ["", "Echo", "echo ", "__proto__", "constructor", "toString", "echo\0", "x".repeat(500_000), "é".repeat(200_000)]) {
    const body = JSON.stringify(request("tools/call", { name, arguments: { text: "a" } }));
    refused(`the tool ${JSON.stringify(name.slice(0, 20))} is unknown`, body, 200, -32602, { message: /^Unknown tool: / });
  }

  for (const [what, args] of [
    ["an argument that isn't there", "{}"],
    ["an argument of another type", '{"text":{"a":[1]}}'],
    ["an argument too many", '{"text":"a","__proto__":{"a":1}}'],
    ["a text that is empty", '{"text":""}'],
    ["a text that is too long", `{"text":"${"x".repeat(4_001)}"}`],
    ["arguments of 50,000 wrong names", `{${Array.from({ length: 50_000 }, (_, i) => `"k${i}":1`).join()}}`],
    ["an argument's name of half a megabyte", `{"${"k".repeat(500_000)}":1}`],
  ]) {
    test(`${what} is told to the model, and shortly`, () =>
      changesNothing(async (address) => {
        const { status, result, text } = await sluice.mcp(call(args), { address });
        assert.deepEqual([status, result?.isError], [200, true], text.slice(0, 500));
        assert.match(result.content[0].text, /^Invalid arguments for echo: .*\btext|not an argument/);
        assert.ok(text.length < 2_000);
      }));
  }
});

describe("a body over the limit", () => {
  const padded = (length) => ECHO.padEnd(length, " ");

  test("is refused at one byte too many, and taken at the limit", () =>
    changesNothing(async (address) => {
      isRefused(await sluice.mcp(padded(LIMIT + 1), { address }), 413, -32600, /1048576 bytes/);
      assert.equal((await sluice.mcp(PING.padEnd(LIMIT, " "), { address })).status, 200);
    }));

  test("of 3 MB as application/json; is refused", () =>
    changesNothing(async (address) => {
      const headers = { "content-type": "application/json;" };
      isRefused(await sluice.mcp(padded(3 << 20), { address, headers }), 413, -32600);
    }));

  test("that doesn't tell its length is read up to the limit", () =>
    changesNothing(async (address) => {
      const chunks = (count) => {
        let left = count;
        return new ReadableStream({
          pull: (controller) => (left-- > 0 ? controller.enqueue(Buffer.alloc(65_536, " ")) : controller.close()),
        });
      };
      const send = (count) => sluice.mcp("", { address, body: chunks(count), duplex: "half" });
      isRefused(await send(48), 413, -32600);
      isRefused(await send(4), 400, -32700);
    }));

  // Much more than sockets hold: whoever stops reading it before its end cuts the sender off, who then never sees why.
  const whole = padded(6 << 20);
  const chunked = `${whole.length.toString(16)}\r\n${whole}\r\n0\r\n\r\n`;
  for (const [what, status, bytes] of [
    ["that tells its length", 413, post([JSON_TYPE], whole)],
    ["that doesn't tell its length", 413, `${post([JSON_TYPE, "Transfer-Encoding: chunked"], "", { length: undefined })}${chunked}`],
    ["of another type", 415, post(["Content-Type: text/plain"], whole)],
  ]) {
    test(`${what} is answered once it is sent whole`, async () => {
      const socket = connect(Number(plain.url.port), plain.url.hostname);
      await new Promise((resolve, reject) => socket.on("error", reject).write(bytes, resolve));
      let answer = "";
      for await (const data of socket) answer += data;
      assert.equal(statusOf(answer), status, answer);
    });
  }

  test("that tells a length and comes in chunks is never more than the limit", async () => {
    const head = post([JSON_TYPE, "Content-Length: 20", "Transfer-Encoding: chunked"], "", { length: undefined });
    const answer = await plain.raw(`${head}${chunked}`, { wait: 5_000 }).catch(() => "");
    assert.ok(answer === "" || statusOf(answer) >= 400, answer);
  });

  test("that is announced and doesn't come is refused all the same", async () => {
    const answer = await plain.raw(post([JSON_TYPE], "", { length: LIMIT + 1 }), { wait: 5_000 });
    assert.equal(statusOf(answer), 413, answer);
  });

  test("that is longer than its Content-Length is cut there", () =>
    changesNothing(async (address) => {
      const answer = await sluice.raw(post([JSON_TYPE, `cf-connecting-ip: ${address}`], ECHO, { length: 20 }));
      assert.deepEqual([statusOf(answer), codeOf(answer)], [400, -32700]);
    }));

  for (const length of [5_000, LIMIT + 1, 999_999_999]) {
    test(`that ends before its Content-Length of ${length} runs nothing`, () =>
      changesNothing(async (address) => {
        const socket = connect(Number(sluice.url.port), sluice.url.hostname);
        socket.on("error", () => {});
        socket.write(post([JSON_TYPE, `cf-connecting-ip: ${address}`], ECHO, { length }));
        socket.end();
        const answer = await new Promise((resolve) => {
          let text = "";
          socket.on("data", (data) => (text += data));
          socket.on("close", () => resolve(text));
        });
        assert.ok(answer === "" || statusOf(answer) >= 400, answer);
      }));
  }

  for (const length of ["-1", "abc", "1e3", "0x10", "99999999999999999999999"]) {
    test(`with a Content-Length of ${length} isn't taken`, () =>
      changesNothing(async (address) => {
        const answer = await sluice.raw(post([JSON_TYPE, `cf-connecting-ip: ${address}`], ECHO, { length }), { wait: 300 });
        assert.ok(answer === "" || statusOf(answer) >= 400, answer);
      }));
  }

  test("is told for MCP_MAX_REQUEST_BODY, text or number", async () => {
    for (const MCP_MAX_REQUEST_BODY of ["200", 200]) {
      await using small = await start({ vars: { MCP_MAX_REQUEST_BODY } });
      assert.equal((await small.mcp(PING.padEnd(200, " "))).status, 200);
      isRefused(await small.mcp(PING.padEnd(201, " ")), 413, -32600, /\b200 bytes/);
    }
  });
});

test("MCP_MAX_BATCH is the most entries of a batch", async () => {
  await using small = await start({ vars: { ...vars, MCP_MAX_BATCH: "3" } });
  assert.equal((await small.mcp([echo(1), echo(2), echo(3)])).json.length, 3);
  isRefused(await small.mcp([echo(1), echo(2), echo(3), echo(4)]), 400, -32600, /\b3 entries/);
  assert.equal(await goodCall(undefined, small), 26);
});

describe("media types", () => {
  const json = ["application/json;", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', "application/json ; a=b"];
  for (const type of json) {
    test(`${type} is taken`, async () => {
      assert.equal((await sluice.mcp(PING, { headers: { "content-type": type } })).status, 200);
    });
  }

  for (const type of [
    ...["application/json; charset=latin1", "application/json; charset=utf-16", "application/json;charset=utf-7"],
    ...["application/json; charset=", "application/json; charset=utf-8; charset=latin1", "application/json, text/plain"],
    ...["text/json", "text/plain", "application/jsonp", "application/json/x", "json", ";", "", "*/*", "application/x-ndjson"],
  ]) {
    turnedAway(`${JSON.stringify(type)} isn't taken`, ECHO, 415, { "content-type": type });
  }

  for (const [encoding, compress] of [
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["identity, gzip", gzipSync],
    ["compress", Buffer.from],
  ]) {
    turnedAway(`a body in ${encoding} isn't taken`, compress(ECHO), 415, { "content-encoding": encoding });
  }

  refused("a compressed body that doesn't say so is a parse error", gzipSync(ECHO), 400, -32700);

  test("a body that says it is as it is, is taken", async () => {
    assert.equal((await sluice.mcp(PING, { headers: { "content-encoding": "identity" } })).status, 200);
  });

  const other = ["text/event-stream", "text/html", "application/json;q=0", "*/*;q=0", "application/*;q=0.0, text/html", "nonsense"];
  for (const accept of other) {
    refused(`Accept: ${accept} can't be met`, ECHO, 406, -32600, { headers: { accept }, message: /application\/json/ });
  }

  for (const accept of ["*/*", "application/*", "application/json", "text/html, application/json;q=0.1", "*/*;q=0, application/json", ""]) {
    test(`Accept: ${JSON.stringify(accept)} can be met`, async () => {
      assert.equal((await sluice.mcp(PING, { headers: { accept } })).status, 200);
    });
  }
});

describe("a header that comes twice", () => {
  const _meta = { "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {} };
  const modernEcho = JSON.stringify(request("tools/call", { name: "echo", arguments: { text: "a" }, _meta }));
  const modernLines = [JSON_TYPE, `MCP-Protocol-Version: ${MODERN}`, "Mcp-Method: tools/call", "Mcp-Name: echo"];

  test("isn't needed: once each, the call runs", async () => {
    const answer = await sluice.raw(post([...modernLines, `cf-connecting-ip: ${newcomer()}`], modernEcho));
    assert.equal(statusOf(answer), 200, answer);
  });

  for (const line of modernLines.slice(1)) {
    test(`${line} makes a modern call a mismatch`, () =>
      changesNothing(async (address) => {
        const answer = await sluice.raw(post([...modernLines, line, `cf-connecting-ip: ${address}`], modernEcho));
        assert.deepEqual([statusOf(answer), codeOf(answer)], [400, -32020], answer);
      }));
  }

  test("MCP-Protocol-Version is an unknown version for a legacy call", () =>
    changesNothing(async (address) => {
      const line = "MCP-Protocol-Version: 2025-06-18";
      const answer = await sluice.raw(post([JSON_TYPE, line, line, `cf-connecting-ip: ${address}`], ECHO));
      assert.deepEqual([statusOf(answer), codeOf(answer)], [400, -32022], answer);
    }));

  for (const second of [JSON_TYPE, "Content-Type: text/plain"]) {
    test(`Content-Type, then as ${second}, isn't taken`, () =>
      changesNothing(async (address) => {
        assert.equal(statusOf(await sluice.raw(post([JSON_TYPE, second, `cf-connecting-ip: ${address}`], ECHO))), 415);
      }));
  }

  test("Origin is forbidden", () =>
    changesNothing(async (address) => {
      const line = "Origin: http://localhost";
      assert.equal(statusOf(await sluice.raw(post([JSON_TYPE, line, line, `cf-connecting-ip: ${address}`], ECHO))), 403);
    }));

  test("cf-connecting-ip names no address: such calls share one bucket and leave both addresses' own alone", async () => {
    const [one, other] = [newcomer(), newcomer()];
    const remaining = async () => {
      const lines = [JSON_TYPE, `cf-connecting-ip: ${one}`, `cf-connecting-ip: ${other}`];
      const answer = await sluice.raw(post(lines, ECHO));
      return Number(answer.match(/"remaining":(\d+)/)[1]);
    };
    const first = await remaining();
    assert.equal(await remaining(), first - 1);
    assert.deepEqual([await goodCall(one), await goodCall(other)], [29, 29]);
    assert.equal(await goodCall("no address"), first - 2);
  });

  test("or has bytes that are no text is refused, not trusted", () =>
    changesNothing(async (address) => {
      const lines = [JSON_TYPE, "MCP-Protocol-Version: \xff\xfe", `cf-connecting-ip: ${address}`];
      const answer = await sluice.raw(Buffer.from(post(lines, ECHO), "latin1"));
      assert.deepEqual([statusOf(answer), codeOf(answer)], [400, -32022]);
    }));
});

describe("a page that isn't allowed", () => {
  for (const origin of [
    ...["https://elsewhere.example", "null", "http://localhost.elsewhere.example", "http://elsewhere.example:8787/localhost"],
    ...["http://elsewhere.example#localhost", "http://localhost@elsewhere.example", "localhost", "http://", "http://localhost/"],
    ...["http://xlocalhost", "http://localhost, http://localhost", "file://", "http://127.0.0.1:1"],
  ]) {
    turnedAway(`${origin} is forbidden, and told nothing`, ECHO, 403, { origin });
  }

  for (const path of ["/mcp", "/stats", "/metrics", "/healthz"]) {
    test(`is forbidden to ask for ${path} by any method`, async () => {
      for (const method of ["GET", "OPTIONS", "DELETE", "POST", "PUT"]) {
        for (const origin of ["https://elsewhere.example", "null"]) {
          const answer = await sluice.fetch(path, { method, headers: { origin } });
          assert.deepEqual([answer.status, await answer.text()], [403, ""], `${method} ${path}`);
          assert.equal(answer.headers.get("access-control-allow-origin"), null);
          assert.match(answer.headers.get("vary"), /\bOrigin\b/);
        }
      }
    });
  }
});

test("a page whose own name leads to this machine is forbidden", async () => {
  const sent = post([JSON_TYPE, "Origin: http://rebound.example"], PING).replace("Host: localhost", "Host: rebound.example");
  const answer = await sluice.raw(sent);
  assert.equal(statusOf(answer), 403);
});

describe("a page that is allowed", () => {
  const origin = "http://localhost:6274";

  test("may ask in advance, and is told what it may send", async () => {
    const headers = {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "content-type,mcp-protocol-version,Mcp-Param-Region, mcp-param-shard_1,x-other,mcp-paramx",
    };
    const answer = await sluice.fetch("/mcp", { method: "OPTIONS", headers });
    assert.equal(answer.status, 204);
    assert.equal(answer.headers.get("access-control-allow-origin"), origin);
    assert.equal(answer.headers.get("access-control-allow-credentials"), null);
    assert.match(answer.headers.get("access-control-allow-methods"), /\bPOST\b/);
    assert.match(answer.headers.get("vary"), /\bOrigin\b/);
    assert.ok(Number(answer.headers.get("access-control-max-age")) > 0);
    const allowed = answer.headers.get("access-control-allow-headers").toLowerCase().split(/, */);
    for (const name of [
      ...["content-type", "accept", "authorization", "mcp-protocol-version", "mcp-method", "mcp-name"],
      ...["mcp-session-id", "last-event-id", "mcp-param-region", "mcp-param-shard_1"],
    ]) {
      assert.ok(allowed.includes(name), name);
    }
    assert.ok(!allowed.includes("x-other") && !allowed.includes("mcp-paramx"));
  });

  test("may read what is told in headers", async () => {
    const answer = await sluice.mcp(echo(), { address: newcomer(), headers: { origin } });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("access-control-allow-origin"), origin);
    const exposed = answer.headers.get("access-control-expose-headers").toLowerCase().split(/, */);
    for (const name of ["ratelimit", "ratelimit-policy", "retry-after", "www-authenticate"]) assert.ok(exposed.includes(name), name);
    assert.ok(answer.headers.get("ratelimit") && answer.headers.get("ratelimit-policy"));
  });

  test("may read the counts", async () => {
    const answer = await sluice.fetch("/stats", { headers: { origin } });
    assert.deepEqual([answer.status, answer.headers.get("access-control-allow-origin")], [200, origin]);
  });

  for (const [what, status, body, init] of [
    ["a parse error", 400, "{", {}],
    ["a mismatch of headers", 400, PING, { headers: { "mcp-protocol-version": MODERN } }],
    ["an unknown version", 400, PING, { headers: { "mcp-protocol-version": "foo" } }],
    ["a wrong method", 405, undefined, { method: "DELETE" }],
    ["an Accept that can't be met", 406, PING, { headers: { accept: "text/html" } }],
    ["a body too large", 413, PING.padEnd(LIMIT + 1), {}],
    ["a wrong type", 415, PING, { headers: { "content-type": "text/plain" } }],
    ["a compressed body", 415, PING, { headers: { "content-encoding": "gzip" } }],
  ]) {
    test(`may read the answer to ${what}`, async () => {
      const headers = { "content-type": "application/json", ...init.headers, origin };
      const answer = await sluice.fetch("/mcp", { method: "POST", body, ...init, headers });
      assert.deepEqual([answer.status, answer.headers.get("access-control-allow-origin")], [status, origin]);
      assert.match(answer.headers.get("vary"), /\bOrigin\b/);
    });
  }

  test("has any scheme and port, and its name in any letters", async () => {
    for (const allowed of ["http://localhost", "https://localhost", "http://LOCALHOST:1", "vscode-webview://localhost"]) {
      const answer = await sluice.mcp(PING, { headers: { origin: allowed } });
      assert.deepEqual([answer.status, answer.headers.get("access-control-allow-origin")], [200, allowed]);
    }
  });

  test("is of the Worker's own origin, whatever the list", async () => {
    await using none = await start({ vars: { MCP_ALLOWED_ORIGINS: "" } });
    const ask = (from) => none.mcp(PING, { headers: { origin: from } });
    assert.equal((await ask(none.url.origin)).status, 200);
    for (const other of ["http://localhost", "http://127.0.0.1:1", `${none.url.origin}.example`]) {
      assert.equal((await ask(other)).status, 403, other);
    }
  });

  test("is one of those that MCP_ALLOWED_ORIGINS lists", async () => {
    await using listed = await start({ vars: { MCP_ALLOWED_ORIGINS: "app.example, [::1],Other.Example" } });
    const ask = async (from) => (await listed.mcp(PING, { headers: { origin: from } })).status;
    for (const yes of ["https://app.example", "http://app.example:3000", "http://[::1]:5173", "https://other.example"]) {
      assert.equal(await ask(yes), 200, yes);
    }
    for (const no of ["http://localhost", "https://www.app.example", "https://app.example.org", "null"]) {
      assert.equal(await ask(no), 403, no);
    }
  });

  test("is any with a star, but never one without a name", async () => {
    await using open = await start({ vars: { MCP_ALLOWED_ORIGINS: "*" } });
    const answer = await open.mcp(PING, { headers: { origin: "https://anywhere.example" } });
    assert.deepEqual([answer.status, answer.headers.get("access-control-allow-origin")], [200, "https://anywhere.example"]);
    assert.equal(answer.headers.get("access-control-allow-credentials"), null);
    assert.equal((await open.mcp(PING, { headers: { origin: "null" } })).status, 403);
  });
});

test("all of it at once changes nothing either", () =>
  changesNothing(async (address) => {
    const bodies = [
      ...["{", "[]", "[".repeat(100_000), call('{"text":"\\ud800"}'), call("{}"), `[${Array(10_000).fill(PING).join()}]`],
      ...[ECHO.replace('"id":1', '"id":null'), Buffer.alloc(LIMIT + 1, "x"), Buffer.alloc(1_000, 0xff), ""],
    ];
    const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => sluice.mcp(bodies[i % bodies.length], { address })));
    for (const [i, { status, text }] of answers.entries()) {
      const { status: expected } = answers[i % bodies.length];
      assert.ok(status === expected && status < 500, `${status} ${text.slice(0, 200)}`);
    }
  }));

test("nothing of this page was a fault of the server", () => {
  const faults = sluice.logs(/panick|unreachable|RuntimeError|outside of Rust|"event"/);
  assert.deepEqual(faults.map(({ message }) => message), []);
});

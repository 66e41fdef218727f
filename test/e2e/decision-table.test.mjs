// Which answer each shape of request gets: the rows of the protocol's decision table, and the rules for batches.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { start } from "./harness.mjs";

const MODERN = "2026-07-28";
const LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const SUPPORTED = [MODERN, ...LEGACY];
const UNKNOWN = "2031-01-01";
const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel";
const SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo";

let sluice;
before(async () => (sluice = await start()));
after(() => sluice?.close());

let callers = 0;
/** An address that no call came from yet: nothing here is to meet the limit. */
const newcomer = () => `198.51.${100 + (callers >> 8)}.${callers++ & 255}`;

const request = (method, params, id = 1) => ({ jsonrpc: "2.0", id, method, ...(params && { params }) });
const notification = (method, params) => ({ jsonrpc: "2.0", method, ...(params && { params }) });
const echo = (id = 1, text = "hello") => request("tools/call", { name: "echo", arguments: { text } }, id);
const envelope = (version = MODERN) => ({ [VERSION_KEY]: version, [CAPABILITIES_KEY]: {} });
const claiming = (message, version = MODERN) => ({
  ...message,
  params: { ...message.params, _meta: { ...envelope(version), ...message.params?._meta } },
});
const version = (value) => (value === undefined ? {} : { "mcp-protocol-version": value });

/** Sends a message, and checks what holds for every answer. */
async function post(message, headers = {}, worker = sluice) {
  const answer = await worker.mcp(message, { headers, address: newcomer() });
  assert.equal(answer.headers.get("mcp-session-id"), null, "no session is ever made");
  assert.match(answer.headers.get("vary"), /\bOrigin\b/i);
  if (answer.text) {
    assert.equal(answer.headers.get("content-type"), "application/json");
    assert.ok(!answer.text.includes("\n"), "JSON stands on one line");
    for (const entry of [answer.json].flat()) {
      assert.equal(entry.jsonrpc, "2.0");
      assert.notEqual(entry.id, null, "an id is never null");
    }
  }
  return answer;
}

/** Sends a modern request whose headers say what its body says, but for `headers`; null leaves one out. */
function modern(message, headers = {}, worker) {
  const all = { ...version(MODERN), "mcp-method": message.method };
  if (message.method === "tools/call") all["mcp-name"] = message.params.name;
  Object.assign(all, headers);
  for (const [name, value] of Object.entries(all)) if (value === null) delete all[name];
  return post(claiming(message), all, worker);
}

function isErrorWithoutId(answer, status, code) {
  assert.deepEqual({ status: answer.status, code: answer.error?.code }, { status, code }, answer.text);
  assert.ok(answer.error.message.length > 5, "the message says what is wrong");
  assert.ok(!("result" in answer.json) && !("id" in answer.json), answer.text);
}

function isError(answer, status, code) {
  assert.equal(answer.json?.id, 1, answer.text);
  const { id, ...json } = answer.json;
  isErrorWithoutId({ ...answer, json }, status, code);
}

function isEmpty(answer, status) {
  assert.deepEqual([answer.status, answer.text], [status, ""]);
}

function isModernResult(answer) {
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.result.resultType, "complete");
  assert.equal(answer.result._meta[SERVER_INFO_KEY].name, "sluice");
  assert.equal(typeof answer.result._meta[SERVER_INFO_KEY].version, "string");
}

function isCacheable({ result }) {
  assert.ok(Number.isInteger(result.ttlMs) && result.ttlMs >= 0, `ttlMs is ${result.ttlMs}`);
  assert.equal(result.cacheScope, "public");
}

function isLegacyResult(answer) {
  assert.equal(answer.status, 200, answer.text);
  assert.ok(answer.result, answer.text);
  for (const key of ["resultType", "ttlMs", "cacheScope"]) assert.ok(!(key in answer.result), `${key} in a legacy result`);
  assert.equal(answer.result._meta?.[SERVER_INFO_KEY], undefined);
}

function isUnsupported(answer, requested) {
  isError(answer, 400, -32022);
  assert.deepEqual(answer.error.data, { supported: SUPPORTED, requested });
}

describe("a modern request", () => {
  test("server/discover tells revisions, capabilities and how long that holds", async () => {
    const answer = await modern(request("server/discover"));
    isModernResult(answer);
    isCacheable(answer);
    const { supportedVersions, capabilities, instructions, serverInfo } = answer.result;
    assert.deepEqual([supportedVersions, capabilities, serverInfo], [SUPPORTED, { tools: {} }, undefined]);
    assert.match(instructions, /wait/i);
  });

  test("tools/list has what a modern result has, and the same tools each time", async () => {
    const [answer, again] = [await modern(request("tools/list")), await modern(request("tools/list"))];
    isModernResult(answer);
    isCacheable(answer);
    assert.deepEqual(again.result, answer.result);
    assert.equal(answer.result.nextCursor, undefined);
    for (const { name, description, inputSchema } of answer.result.tools) {
      assert.match(name, /^[A-Za-z0-9_.-]{1,64}$/);
      assert.ok(description);
      assert.equal(inputSchema.type, "object");
    }
  });

  test("tools/call has what a modern result has, and can't be kept", async () => {
    const answer = await modern(echo());
    isModernResult(answer);
    assert.deepEqual(answer.result.content, [{ type: "text", text: "hello" }]);
    assert.deepEqual([answer.result.isError, answer.result.ttlMs, answer.result.cacheScope], [false, undefined, undefined]);
  });

  test("bad arguments are a modern tool result", async () => {
    const answer = await modern(request("tools/call", { name: "echo", arguments: { text: 7 } }));
    isModernResult(answer);
    assert.equal(answer.result.isError, true);
  });

  test("without clientInfo is served", async () => isModernResult(await modern(echo())));

  test("with a client that declares and says more is served", async () => {
    const _meta = {
      [CAPABILITIES_KEY]: { sampling: {}, elicitation: { form: {} } },
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      [LOG_LEVEL_KEY]: "debug",
      progressToken: 7,
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    isModernResult(await modern(request("tools/call", { name: "echo", arguments: { text: "a" }, task: {}, _meta })));
  });

  for (const method of [
    ...["initialize", "ping", "logging/setLevel", "resources/list", "resources/read", "resources/templates/list"],
    ...["resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete"],
    ...["tasks/list", "tasks/get", "subscriptions/listen", "tools/List", "nope", ""],
  ]) {
    test(`of the method ${JSON.stringify(method)} is not found`, async () => isError(await modern(request(method)), 404, -32601));
  }

  test("without params is told that _meta is missing", async () => {
    const headers = { ...version(MODERN), "mcp-method": "tools/list" };
    isError(await post(request("tools/list"), headers), 400, -32602);
  });

  for (const [what, params] of [
    ["without _meta", {}],
    ["with a _meta that is no object", { _meta: [] }],
    ["without a version in _meta", { _meta: { [CAPABILITIES_KEY]: {} } }],
    ["with a version that is no string", { _meta: { [VERSION_KEY]: 20260728, [CAPABILITIES_KEY]: {} } }],
    ["without clientCapabilities", { _meta: { [VERSION_KEY]: MODERN } }],
    ["with clientCapabilities that are no object", { _meta: { [VERSION_KEY]: MODERN, [CAPABILITIES_KEY]: [] } }],
  ]) {
    test(`${what} is told which key is missing`, async () => {
      const headers = { ...version(MODERN), "mcp-method": "tools/list" };
      const answer = await post(request("tools/list", params), headers);
      isError(answer, 400, -32602);
      assert.match(answer.error.message, /io\.modelcontextprotocol\/(protocolVersion|clientCapabilities)/);
    });
  }

  test("with a log level that doesn't exist is told so", async () => {
    const answer = await modern(request("tools/list", { _meta: { [LOG_LEVEL_KEY]: "loud" } }));
    assert.equal(answer.error.code, -32602);
    assert.match(answer.error.message, /logLevel/);
  });

  test("without the version header is a mismatch", async () => {
    isError(await modern(request("tools/list"), { "mcp-protocol-version": null }), 400, -32020);
  });

  for (const header of ["2025-11-25", UNKNOWN, "foo", ""]) {
    test(`under the version header ${JSON.stringify(header)} is a mismatch`, async () => {
      isError(await modern(request("tools/list"), version(header)), 400, -32020);
    });
  }

  for (const claim of ["2025-11-25", UNKNOWN]) {
    test(`that claims ${claim} under the modern header is a mismatch, before its support is looked at`, async () => {
      const headers = { ...version(MODERN), "mcp-method": "tools/list" };
      isError(await post(claiming(request("tools/list"), claim), headers), 400, -32020);
    });
  }

  test("of an unknown revision is told which there are", async () => {
    const headers = { ...version(UNKNOWN), "mcp-method": "tools/list" };
    isUnsupported(await post(claiming(request("tools/list"), UNKNOWN), headers), UNKNOWN);
  });

  test("of an unknown revision is told so even when nothing else fits", async () => {
    const message = request("no/such", { _meta: { [VERSION_KEY]: UNKNOWN } });
    isUnsupported(await post(message, version(UNKNOWN)), UNKNOWN);
  });

  for (const [what, headers] of [
    ["without Mcp-Method", { "mcp-method": null }],
    ["with another Mcp-Method", { "mcp-method": "tools/list" }],
    ["with an Mcp-Method in other letters", { "mcp-method": "TOOLS/CALL" }],
    ["with two Mcp-Methods in one", { "mcp-method": "tools/call, tools/call" }],
    ["without Mcp-Name", { "mcp-name": null }],
    ["with another Mcp-Name", { "mcp-name": "list_decisions" }],
    ["with an Mcp-Name in other letters", { "mcp-name": "Echo" }],
    ["with an Mcp-Name in bad base64", { "mcp-name": "=?base64?ZWNoby?=" }],
    ["with an Mcp-Name in the base64 of another", { "mcp-name": "=?base64?ZWNob28=?=" }],
    ["with an Mcp-Name that only begins like base64", { "mcp-name": "=?base64?ZWNobw==" }],
  ]) {
    test(`${what} is a mismatch`, async () => isError(await modern(echo(), headers), 400, -32020));
  }

  test("with the base64 of its Mcp-Name is served", async () => {
    isModernResult(await modern(echo(), { "mcp-name": "=?base64?ZWNobw==?=" }));
  });

  test("with white space round its headers is served", async () => {
    const body = JSON.stringify(claiming(echo()));
    const lines = [
      ...["POST /mcp HTTP/1.1", "Host: localhost", "Connection: close", "Content-Type:  application/json\t"],
      ...[`MCP-Protocol-Version: \t${MODERN} `, "Mcp-Method:\t tools/call  ", "Mcp-Name:echo\t", `Content-Length: ${body.length}`],
    ];
    const answer = await sluice.raw(`${lines.join("\r\n")}\r\n\r\n${body}`);
    assert.match(answer, /^HTTP\/1\.1 200 [^]*"resultType":"complete"/);
  });

  test("of an unknown method is not found before Mcp-Name is looked at", async () => {
    isError(await modern(request("prompts/get", { name: "a" })), 404, -32601);
  });

  for (const [what, params] of [
    ["without a name", { arguments: {} }],
    ["with a name that is no string", { name: 7 }],
    ["with arguments that are a list", { name: "echo", arguments: ["a"] }],
    ["with arguments that are null", { name: "echo", arguments: null }],
  ]) {
    test(`to call a tool ${what} is told so with status 200`, async () => {
      isError(await modern(request("tools/call", params), { "mcp-name": "echo" }), 200, -32602);
    });
  }

  test("to call an unknown tool is told so with status 200", async () => {
    const answer = await modern(request("tools/call", { name: "nope" }));
    isError(answer, 200, -32602);
    assert.match(answer.error.message, /\bnope\b/);
  });

  test("to call an unknown tool under another Mcp-Name is a mismatch", async () => {
    isError(await modern(request("tools/call", { name: "nope" }), { "mcp-name": "echo" }), 400, -32020);
  });

  test("for another page of the list is told that there is one", async () => {
    const answer = await modern(request("tools/list", { cursor: "2" }));
    isError(answer, 200, -32602);
    assert.match(answer.error.message, /cursor/);
  });

  test("with a session and an event id is served as if they weren't there", async () => {
    isModernResult(await modern(echo(), { "mcp-session-id": "abc", "last-event-id": "7" }));
  });
});

describe("a modern request to a tool with a mirrored argument", () => {
  let worker;
  before(async () => (worker = await start({ fixtures: true })));
  after(() => worker?.close());

  const call = (region, headers) => {
    const args = region === undefined ? {} : { region };
    return modern(request("tools/call", { name: "test_custom_header", arguments: args }), headers, worker);
  };

  test("the right Mcp-Param is served, plain and in base64", async () => {
    isModernResult(await call("eu", { "mcp-param-region": "eu" }));
    isModernResult(await call("Zürich", { "mcp-param-region": "=?base64?WsO8cmljaA==?=" }));
    isModernResult(await call("=?base64?SGVsbG8=", { "mcp-param-region": "=?base64?SGVsbG8=" }));
  });

  test("no Mcp-Param is needed where there is no argument", async () => {
    isModernResult(await call(undefined, {}));
  });

  for (const [what, region, headers] of [
    ["a missing Mcp-Param", "eu", {}],
    ["another Mcp-Param", "eu", { "mcp-param-region": "us" }],
    ["an Mcp-Param in other letters", "eu", { "mcp-param-region": "EU" }],
    ["an Mcp-Param in bad base64", "Hello", { "mcp-param-region": "=?base64?SGVsbG8?=" }],
    ["an Mcp-Param without an argument", undefined, { "mcp-param-region": "eu" }],
  ]) {
    test(`${what} is a mismatch`, async () => {
      const answer = await call(region, headers);
      isError(answer, 400, -32020);
      assert.match(answer.error.message, /Mcp-Param-Region/i);
    });
  }

  test("an Mcp-Param that nothing is mirrored by is ignored", async () => {
    isModernResult(await call("eu", { "mcp-param-region": "eu", "mcp-param-other": "x" }));
  });

  test("a mismatch is told before the arguments are checked", async () => {
    isError(await call(7, { "mcp-param-region": "eu" }), 400, -32020);
  });

  test("a capability that isn't declared is named, as an object", async () => {
    const answer = await modern(request("tools/call", { name: "test_missing_capability" }), {}, worker);
    isError(answer, 400, -32021);
    assert.deepEqual(answer.error.data, { requiredCapabilities: { sampling: {} } });
  });

  test("a legacy call needs no Mcp-Param", async () => {
    const answer = await post(request("tools/call", { name: "test_custom_header", arguments: { region: "eu" } }), {}, worker);
    isLegacyResult(answer);
  });
});

describe("initialize", () => {
  const initialize = (protocolVersion, headers) =>
    post(request("initialize", { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } }), headers);

  for (const requested of LEGACY) {
    test(`for ${requested} is answered with that`, async () => {
      const answer = await initialize(requested);
      isLegacyResult(answer);
      const { protocolVersion, capabilities, serverInfo } = answer.result;
      assert.deepEqual([protocolVersion, capabilities, serverInfo.name], [requested, { tools: {} }, "sluice"]);
    });
  }

  for (const requested of [UNKNOWN, "foo", MODERN, "2024-10-07", ""]) {
    test(`for ${JSON.stringify(requested)} is answered with the newest that has a handshake`, async () => {
      const answer = await initialize(requested);
      isLegacyResult(answer);
      assert.equal(answer.result.protocolVersion, "2025-11-25");
    });
  }

  for (const header of [...LEGACY, UNKNOWN, "foo"]) {
    test(`under the version header ${header} negotiates by its body alone`, async () => {
      const answer = await initialize("2025-06-18", version(header));
      isLegacyResult(answer);
      assert.equal(answer.result.protocolVersion, "2025-06-18");
    });
  }

  test("under the modern header is a mismatch", async () => {
    isError(await initialize("2025-06-18", version(MODERN)), 400, -32020);
  });

  test("with a version that is no string is told so", async () => isError(await initialize(7), 200, -32602));
});

describe("a legacy request", () => {
  for (const header of [undefined, ...LEGACY]) {
    const under = header ? `under ${header}` : "without a version header";

    test(`ping ${under} has an empty result and nothing else`, async () => {
      const answer = await post(request("ping"), version(header));
      assert.deepEqual([answer.status, answer.text], [200, '{"jsonrpc":"2.0","id":1,"result":{}}']);
    });

    test(`tools/list ${under} has tools and nothing else`, async () => {
      const answer = await post(request("tools/list"), version(header));
      isLegacyResult(answer);
      assert.deepEqual(Object.keys(answer.result), ["tools"]);
    });

    test(`tools/call ${under} needs no handshake before`, async () => {
      const answer = await post(echo(), version(header));
      isLegacyResult(answer);
      assert.deepEqual(answer.result.content, [{ type: "text", text: "hello" }]);
      assert.equal(answer.result.isError, false);
    });

    test(`an unknown method ${under} is not found, with status 200`, async () => {
      for (const method of ["nope", "server/discover", "logging/setLevel", "resources/list", "prompts/list", "tasks/list"]) {
        isError(await post(request(method), version(header)), 200, -32601);
      }
    });

    test(`an unknown tool ${under} is told with status 200`, async () => {
      isError(await post(request("tools/call", { name: "nope" }), version(header)), 200, -32602);
    });
  }

  test("with a session that was never made is served, and so it is with wrong Mcp headers", async () => {
    isLegacyResult(await post(echo(), { ...version("2025-06-18"), "mcp-session-id": "abc", "last-event-id": "7" }));
    isLegacyResult(await post(echo(), { ...version("2025-06-18"), "mcp-method": "ping", "mcp-name": "nope" }));
  });

  test("with a task is served as if there were none", async () => {
    const params = { name: "echo", arguments: { text: "a" }, task: { ttl: 60_000 } };
    isLegacyResult(await post(request("tools/call", params), version("2025-11-25")));
  });

  for (const requested of [UNKNOWN, "foo", "2026-07-29", "2025-06-18, 2025-06-18"]) {
    test(`under the version header ${requested} is told which there are`, async () => {
      isUnsupported(await post(request("tools/list"), version(requested)), requested);
    });
  }

  for (const claim of LEGACY) {
    test(`that claims ${claim} in _meta is served by that, its header equal or absent`, async () => {
      isLegacyResult(await post(claiming(echo(), claim), version(claim)));
      isLegacyResult(await post(claiming(echo(), claim)));
      const ping = await post(claiming(request("ping"), claim));
      assert.deepEqual(ping.json.result, {});
    });

    test(`that claims ${claim} in _meta under another header is a mismatch`, async () => {
      const other = LEGACY.find((name) => name !== claim);
      for (const header of [other, MODERN, UNKNOWN]) isError(await post(claiming(echo(), claim), version(header)), 400, -32020);
    });
  }
});

describe("what wants no answer", () => {
  for (const header of [undefined, ...SUPPORTED, UNKNOWN, "foo"]) {
    test(`a notification under ${header ?? "no version header"} is taken`, async () => {
      for (const method of ["notifications/initialized", "notifications/cancelled", "notifications/nope"]) {
        isEmpty(await post(notification(method, { requestId: 1 }), version(header)), 202);
      }
    });
  }

  test("a modern notification is taken", async () => {
    const headers = { ...version(MODERN), "mcp-method": "notifications/cancelled" };
    isEmpty(await post(claiming(notification("notifications/cancelled", { requestId: 1 })), headers), 202);
  });

  test("a tool call without an id runs nothing and costs nothing", async () => {
    const address = newcomer();
    const { id, ...call } = echo();
    assert.equal(id, 1);
    isEmpty(await sluice.mcp(call, { address }), 202);
    const left = await sluice.mcp(request("tools/call", { name: "rate_limit_status" }), { address });
    assert.equal(left.result.structuredContent.remaining, 30);
  });

  for (const header of [undefined, ...LEGACY, UNKNOWN]) {
    test(`a posted response under ${header ?? "no version header"} is dropped`, async () => {
      isEmpty(await post({ jsonrpc: "2.0", id: 1, result: {} }, version(header)), 202);
      isEmpty(await post({ jsonrpc: "2.0", id: 1, error: { code: -1, message: "no" } }, version(header)), 202);
    });
  }

  test("a posted response under the modern header is refused", async () => {
    isErrorWithoutId(await post({ jsonrpc: "2.0", id: 1, result: {} }, version(MODERN)), 400, -32600);
  });
});

describe("an id", () => {
  const ids = [
    ...["0", "1", '"1"', "-7", '""', '"a b"', "9007199254740993", "-9007199254740993", "123456789012345678901234567890"],
    ...['"9007199254740993"', '"\\u0041\\n\\"\\u20ac"', '"ü€😀"', "18446744073709551616"],
  ];

  for (const id of ids) {
    test(`${id} comes back as it is, in both eras`, async () => {
      const legacy = await post(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
      assert.equal(legacy.text, `{"jsonrpc":"2.0","id":${id},"result":{}}`);

      const modernText = JSON.stringify(claiming(request("tools/list"))).replace('"id":1', `"id":${id}`);
      const list = await post(modernText, { ...version(MODERN), "mcp-method": "tools/list" });
      assert.ok(list.text.startsWith(`{"jsonrpc":"2.0","id":${id},"result":{`), list.text.slice(0, 200));
    });

    test(`${id} comes back with an error and with a tool's result`, async () => {
      const error = await post(`{"jsonrpc":"2.0","id":${id},"method":"nope"}`);
      assert.ok(error.text.startsWith(`{"jsonrpc":"2.0","id":${id},"error":{`), error.text);
      const result = await post(JSON.stringify(echo()).replace('"id":1', `"id":${id}`));
      assert.ok(result.text.startsWith(`{"jsonrpc":"2.0","id":${id},"result":{`), result.text);
    });
  }

  test("that stands last, with white space round it, comes back alone", async () => {
    const answer = await post('{"jsonrpc":"2.0","method":"ping", "id" : \n 9007199254740993 \t}');
    assert.equal(answer.text, '{"jsonrpc":"2.0","id":9007199254740993,"result":{}}');
  });

  test("inside of params isn't taken for the request's", async () => {
    const answer = await post('{"jsonrpc":"2.0","params":{"id":5},"id":"x","method":"ping"}');
    assert.equal(answer.text, '{"jsonrpc":"2.0","id":"x","result":{}}');
  });

  for (const id of ["null", "1.5", "1.0", "1e2", "true", "[]", "{}"]) {
    test(`${id} is no id`, async () => {
      isErrorWithoutId(await post(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`), 400, -32600);
    });
  }
});

describe("what is no message", () => {
  for (const body of ["", " ", "{", "hello", '{"jsonrpc":"2.0"', '{"a":1}x', "{'a':1}", "[1,]", "\u00ff"]) {
    test(`${JSON.stringify(body)} isn't JSON`, async () => isErrorWithoutId(await post(body), 400, -32700));
  }

  for (const body of [
    ...["1", "null", "true", '"ping"', "{}", '{"id":1,"method":"ping"}', '{"jsonrpc":"1.0","id":1,"method":"ping"}'],
    ...['{"jsonrpc":2.0,"id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":1}', '{"jsonrpc":"2.0","id":1,"method":7}'],
    ...['{"jsonrpc":"2.0","id":1,"method":null}', '{"jsonrpc":"2.0","id":1,"method":["ping"]}'],
  ]) {
    test(`${body} is JSON but no message`, async () => isErrorWithoutId(await post(body), 400, -32600));
  }
});

describe("a batch", () => {
  const BATCHING = [undefined, "2025-03-26", "2024-11-05"];
  const mixed = [request("ping"), notification("notifications/initialized"), echo("b")];

  for (const header of BATCHING) {
    const under = header ? `under ${header}` : "without a version header";

    test(`${under} is answered by an array, an entry for each request`, async () => {
      const answer = await post(mixed, version(header));
      assert.equal(answer.status, 200);
      assert.equal(answer.json.length, 2);
      const ping = answer.json.find(({ id }) => id === 1);
      const called = answer.json.find(({ id }) => id === "b");
      assert.deepEqual(ping, { jsonrpc: "2.0", id: 1, result: {} });
      assert.deepEqual(called.result.content, [{ type: "text", text: "hello" }]);
      for (const key of ["resultType", "ttlMs", "cacheScope"]) assert.ok(!(key in called.result), key);
    });

    test(`${under} of what wants no answer gets none`, async () => {
      const quiet = [notification("notifications/initialized"), { jsonrpc: "2.0", id: 9, result: {} }];
      isEmpty(await post(quiet, version(header)), 202);
    });
  }

  for (const header of ["2025-06-18", "2025-11-25", MODERN, UNKNOWN]) {
    test(`under ${header} is refused, whatever is in it`, async () => {
      isErrorWithoutId(await post(mixed, version(header)), 400, -32600);
      isErrorWithoutId(await post([notification("notifications/initialized")], version(header)), 400, -32600);
    });
  }

  test("of one request is answered by an array of one", async () => {
    const answer = await post([request("ping")]);
    assert.equal(answer.text, '[{"jsonrpc":"2.0","id":1,"result":{}}]');
  });

  test("with equal ids answers each", async () => {
    const answer = await post([request("ping"), request("ping"), request("ping", undefined, "1")]);
    assert.deepEqual(answer.json.map(({ id }) => JSON.stringify(id)).sort(), ['"1"', "1", "1"]);
  });

  test("echoes ids beyond what a number holds", async () => {
    const answer = await post('[{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"},{"jsonrpc":"2.0","id":"1","method":"ping"}]');
    assert.ok(answer.text.includes('"id":9007199254740993') && answer.text.includes('"id":"1"'), answer.text);
  });

  test("tells an unknown method, an unknown tool and bad arguments in their own entries", async () => {
    const calls = [
      request("nope", undefined, 1),
      request("tools/call", { name: "nope" }, 2),
      request("tools/call", { name: "echo", arguments: {} }, 3),
      request("tools/call", { name: "echo", arguments: [] }, 4),
      echo(5),
    ];
    const { status, json } = await post(calls);
    const entry = (id) => json.find((one) => one.id === id);
    assert.deepEqual([status, json.length], [200, 5]);
    assert.deepEqual([entry(1).error.code, entry(2).error.code, entry(4).error.code], [-32601, -32602, -32602]);
    assert.deepEqual([entry(3).result.isError, entry(5).result.isError], [true, false]);
  });

  for (const [what, entries] of [
    ["that is empty", []],
    ["with initialize", [request("initialize", { protocolVersion: "2025-03-26" }), request("ping", undefined, 2)]],
    ["of initialize alone", [request("initialize", { protocolVersion: "2025-03-26" })]],
    ["with a modern request", [request("ping"), claiming(echo(2))]],
    ["with a request that claims a legacy revision", [claiming(echo(1), "2025-03-26")]],
    ["with a notification that claims a revision", [request("ping"), claiming(notification("notifications/cancelled"))]],
    ["with a number in it", [request("ping"), 1]],
    ["with null in it", [null]],
    ["with a batch in it", [[request("ping")]]],
    ["with an id of null in it", [request("ping"), request("ping", undefined, null)]],
    ["with a message of another version of JSON-RPC", [request("ping"), { ...request("ping"), jsonrpc: "1.0" }]],
  ]) {
    test(`${what} is refused whole`, async () => isErrorWithoutId(await post(entries), 400, -32600));
  }

  test("that is refused runs nothing of it and costs nothing", async () => {
    const address = newcomer();
    isErrorWithoutId(await sluice.mcp([echo(1), echo(2), 1], { address }), 400, -32600);
    const left = await sluice.mcp(request("tools/call", { name: "rate_limit_status" }), { address });
    assert.equal(left.result.structuredContent.remaining, 30);
  });

  test("costs the sum of its valid calls", async () => {
    const address = newcomer();
    const search = request("tools/call", { name: "search_docs", arguments: { query: "limit" } }, 3);
    const { json } = await sluice.mcp([echo(1), echo(2), search, request("tools/call", { name: "nope" }, 4)], { address });
    assert.equal(json.length, 4);
    const left = await sluice.mcp(request("tools/call", { name: "rate_limit_status" }), { address });
    assert.equal(left.result.structuredContent.remaining, 26);
  });
});

describe("HTTP", () => {
  for (const method of ["GET", "DELETE", "PUT", "PATCH", "HEAD"]) {
    test(`${method} is not allowed, and Allow tells what is`, async () => {
      for (const headers of [{}, { "mcp-session-id": "abc", accept: "text/event-stream", ...version(MODERN) }]) {
        const answer = await sluice.fetch("/mcp", { method, headers });
        assert.equal(answer.status, 405);
        assert.equal(answer.headers.get("allow"), "POST, OPTIONS");
        assert.equal(answer.headers.get("mcp-session-id"), null);
        assert.equal(await answer.text(), "");
      }
    });
  }

  test("OPTIONS is answered with 204", async () => {
    const answer = await sluice.fetch("/mcp", { method: "OPTIONS" });
    assert.deepEqual([answer.status, await answer.text()], [204, ""]);
  });

  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"]) {
    test(`a body of ${type} is no JSON`, async () => isEmpty(await post(request("ping"), { "content-type": type }), 415));
  }

  test("a body without a type is no JSON", async () => {
    const body = new TextEncoder().encode(JSON.stringify(request("ping")));
    const answer = await sluice.fetch("/mcp", { method: "POST", body });
    assert.equal(answer.status, 415);
  });

  for (const method of ["POST", "GET", "DELETE", "OPTIONS", "PUT"]) {
    test(`${method} from a page that isn't allowed is forbidden`, async () => {
      const body = method === "POST" || method === "PUT" ? JSON.stringify(request("ping")) : undefined;
      const headers = { origin: "https://elsewhere.example", "content-type": "application/json" };
      const answer = await sluice.fetch("/mcp", { method, body, headers });
      assert.deepEqual([answer.status, await answer.text()], [403, ""]);
      assert.equal(answer.headers.get("access-control-allow-origin"), null);
    });
  }

  test("other paths aren't found", async () => {
    for (const path of ["/", "/mcp/", "/MCP", "/mcp/x", "/sse", "/.well-known/oauth-protected-resource"]) {
      const answer = await sluice.fetch(path, { method: "POST", body: JSON.stringify(request("ping")) });
      assert.equal(answer.status, 404, path);
    }
  });

  test("a query after the path changes nothing", async () => {
    const init = { method: "POST", body: JSON.stringify(request("ping")), headers: { "content-type": "application/json" } };
    assert.equal((await sluice.fetch("/mcp?session=1", init)).status, 200);
  });
});

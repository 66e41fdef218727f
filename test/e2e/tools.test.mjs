// The tools that Sluice comes with, through HTTP, in both eras.
import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { start } from "./harness.mjs";

const MODERN = "2026-07-28";
const TOOLS = ["echo", "list_decisions", "read_decision", "search_docs", "describe_component", "rate_limit_status"];
// What a format may be (JSON Schema Validation 2020-12, section 7.3): validators complain about others.
const FORMATS = ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "regex"];

let sluice;
let listed;
before(async () => {
  // No token comes back meanwhile, so that what is left can be told exactly.
  sluice = await start({ vars: { MCP_RATE_LIMIT: "0.001" } });
  listed = new Map((await send(legacy, "tools/list")).result.tools.map((tool) => [tool.name, tool]));
});
after(() => sluice?.close());

let callers = 0;
const newcomer = () => `192.0.2.${(callers += 1)}`;

const legacy = {
  name: "2025-11-25",
  message: (method, params) => ({ jsonrpc: "2.0", id: 1, method, params }),
  headers: () => ({ "mcp-protocol-version": "2025-11-25" }),
};
const modern = {
  name: MODERN,
  message: (method, params) => ({
    ...{ jsonrpc: "2.0", id: 1, method },
    params: {
      ...params,
      _meta: { "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {} },
    },
  }),
  headers: (method, params) => ({
    ...{ "mcp-protocol-version": MODERN, "mcp-method": method },
    ...(params.name && { "mcp-name": params.name }),
  }),
};

async function send(era, method, params = {}, { address = newcomer(), worker = sluice } = {}) {
  const answer = await worker.mcp(era.message(method, params), { address, headers: era.headers(method, params) });
  assert.equal(answer.status, 200, answer.text);
  return answer;
}

/** Calls a tool, and holds its result against what the tool publishes. */
async function call(era, name, args, options) {
  const { result, headers, text } = await send(era, "tools/call", { name, arguments: args }, options);
  assert.ok(result, text);
  assert.equal(result.content.length, 1);
  assert.equal(result.content[0].type, "text");
  assert.equal(result.resultType, era === modern ? "complete" : undefined);
  const schema = listed.get(name).outputSchema;
  if (result.isError || !schema) {
    assert.ok(!("structuredContent" in result), "only what has a schema is structured");
  } else {
    const { valid, errorMessage } = conforms(schema, result.structuredContent);
    assert.ok(valid, errorMessage);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
  }
  return { ...result, text: result.content[0].text, headers };
}

const validator = new AjvJsonSchemaValidator();
/** Formats are notes (2020-12), and this validator would print those that it doesn't know. */
function conforms(schema, value) {
  const plain = JSON.parse(JSON.stringify(schema), (key, inner) => (key === "format" ? undefined : inner));
  return validator.getValidator(plain)(value);
}

/** The ids of all decisions. */
async function decisions() {
  const { structuredContent } = await call(legacy, "list_decisions", {});
  return structuredContent.decisions.map(({ id }) => id);
}

test("six tools are shipped, listed first and in this order", async () => {
  for (const era of [legacy, modern]) {
    const { result } = await send(era, "tools/list");
    assert.deepEqual(result.tools.slice(0, TOOLS.length).map(({ name }) => name), TOOLS);
  }
});

test("the shipped build has no fixtures", async () => {
  for (const name of ["test_simple_text", "test_panic", "test_slow", "json_schema_2020_12_tool"]) {
    const { error } = await send(legacy, "tools/call", { name, arguments: {} });
    assert.deepEqual([error.code, error.message], [-32602, `Unknown tool: ${name}`]);
  }
});

for (const name of TOOLS) {
  test(`${name} is described, and its schemas are of 2020-12, closed and without foreign formats`, () => {
    const { title, description, inputSchema, outputSchema, annotations } = listed.get(name);
    assert.ok(title && description.endsWith("."));
    assert.equal(annotations.readOnlyHint, true);
    assert.equal(inputSchema.additionalProperties, false);
    for (const schema of [inputSchema, outputSchema].filter(Boolean)) {
      assert.equal(schema.$schema, "https://json-schema.org/draft/2020-12/schema");
      assert.equal(schema.type, "object");
      const formats = [...JSON.stringify(schema).matchAll(/"format":"([^"]*)"/g)].map(([, format]) => format);
      assert.deepEqual(formats.filter((format) => !FORMATS.includes(format)), []);
    }
    for (const property of Object.values(inputSchema.properties ?? {})) assert.ok(property.description, "an argument is described");
  });
}

for (const era of [legacy, modern]) {
  describe(`by ${era.name}`, () => {
    for (const text of ["hello", "😀 ä \0 \u2028", '{"a":1}', "x".repeat(4_000), "😀".repeat(4_000)]) {
      test(`echo returns ${JSON.stringify(text.slice(0, 12))}, ${[...text].length} characters`, async () => {
        const result = await call(era, "echo", { text });
        assert.deepEqual([result.isError, result.text], [false, text]);
      });
    }

    test("list_decisions lists numbers and titles, each once", async () => {
      const { structuredContent } = await call(era, "list_decisions", {});
      const ids = structuredContent.decisions.map(({ id }) => id);
      assert.ok(ids.includes("0001"));
      assert.deepEqual(ids, [...new Set(ids)].sort());
      for (const { id, title } of structuredContent.decisions) {
        assert.match(id, /^\d{4}$/);
        assert.ok(title.length > 0);
      }
    });

    test("read_decision returns each that is listed", async () => {
      for (const id of await decisions()) {
        const result = await call(era, "read_decision", { id });
        assert.equal(result.isError, false);
        assert.match(result.text, /^# /m);
      }
    });

    test("read_decision of an unknown number tells those that there are", async () => {
      const result = await call(era, "read_decision", { id: "9999" });
      assert.equal(result.isError, true);
      for (const id of ["9999", ...(await decisions())]) assert.ok(result.text.includes(id), id);
    });

    test("search_docs finds sections by words, in any letters", async () => {
      const { structuredContent } = await call(era, "search_docs", { query: "LIMITS rate" });
      assert.ok(structuredContent.sections.length > 0);
      for (const { page } of structuredContent.sections) assert.match(page, /^(docs|decisions)\/.+\.md$/);
    });

    test("search_docs returns five sections unless told otherwise", async () => {
      const search = async (args) => {
        const { structuredContent } = await call(era, "search_docs", { query: "the of a limit rate", ...args });
        return structuredContent.sections;
      };
      const [all, five, one, byDefault] = await Promise.all([{ limit: 20 }, { limit: 5 }, { limit: 1 }, {}].map(search));
      assert.deepEqual(byDefault, five);
      assert.deepEqual(byDefault, all.slice(0, 5));
      assert.deepEqual(one, all.slice(0, 1));
      assert.equal(listed.get("search_docs").inputSchema.properties.limit.default, 5);
    });

    test("search_docs takes a whole number however it is written", async () => {
      const body = JSON.stringify(era.message("tools/call", { name: "search_docs", arguments: { query: "rate", limit: 1 } }));
      const headers = era.headers("tools/call", { name: "search_docs" });
      for (const limit of ["1.0", "10e-1"]) {
        const { result } = await sluice.mcp(body.replace('"limit":1', `"limit":${limit}`), { address: newcomer(), headers });
        assert.deepEqual([result.isError, result.structuredContent?.sections.length], [false, 1], result.content[0].text);
      }
    });

    for (const query of ["!!! ???", "xyzzyplugh", "^(xyzzy+)+$"]) {
      test(`search_docs finds nothing for ${query}, and says so`, async () => {
        const { isError, structuredContent } = await call(era, "search_docs", { query });
        assert.deepEqual([isError, structuredContent.sections], [false, []]);
      });
    }

    test("describe_component tells files, edges and flows of mcp-server", async () => {
      const { structuredContent } = await call(era, "describe_component", { name: "mcp-server" });
      const { name, description, files, uses, flows } = structuredContent;
      assert.equal(name, "mcp-server");
      assert.ok(description && files.length > 0);
      assert.ok(uses.some(({ from, to, kind }) => from === "mcp-server" && to === "rate-limiter" && kind === "rpc"));
      for (const flow of ["tool-call", "rate-limited-call"]) assert.ok(flows.includes(flow), flow);
    });

    test("describe_component tells of rate-limiter who uses it", async () => {
      const { structuredContent } = await call(era, "describe_component", { name: "rate-limiter" });
      assert.ok(structuredContent.used_by.some(({ from }) => from === "mcp-server"));
    });

    test("describe_component of an unknown name tells those that there are", async () => {
      const result = await call(era, "describe_component", { name: "nope" });
      assert.equal(result.isError, true);
      for (const name of ["nope", "mcp-server", "rate-limiter"]) assert.ok(result.text.includes(name), name);
    });

    for (const [name, args, ...named] of [
      ["echo", {}, /\/text is missing/],
      ["echo", { text: 7 }, /\/text must be of type string/],
      ["echo", { text: null }, /\/text must be of type string/],
      ["echo", { text: "" }, /\/text must have at least 1 character/],
      ["echo", { text: "x".repeat(4_001) }, /\/text must have at most 4000 characters/],
      ["echo", { text: "a", loud: true }, /\/loud\b/],
      ["echo", { Text: "a" }, /\/text\b/, /\/Text\b/],
      ["list_decisions", { all: true }, /\/all\b/],
      ["read_decision", {}, /\/id is missing/],
      ["read_decision", { id: 1 }, /\/id must be of type string/],
      ["read_decision", { id: "1" }, /\/id must match .*\[0-9\]\{4\}/],
      ["read_decision", { id: "0001\n" }, /\/id\b/],
      ["read_decision", { id: "../1" }, /\/id\b/],
      ["search_docs", { limit: 5 }, /\/query is missing/],
      ["search_docs", { query: "" }, /\/query\b/],
      ["search_docs", { query: "x".repeat(201) }, /\/query must have at most 200 characters/],
      ["search_docs", { query: "a", limit: 0 }, /\/limit must be at least 1/],
      ["search_docs", { query: "a", limit: 21 }, /\/limit must be at most 20/],
      ["search_docs", { query: "a", limit: 1.5 }, /\/limit must be of type integer/],
      ["search_docs", { query: "a", limit: "5" }, /\/limit must be of type integer/],
      ["search_docs", { query: "a", limit: -1e300 }, /\/limit\b/],
      ["search_docs", { query: 1, limit: 99 }, /\/query\b/, /\/limit\b/],
      ["describe_component", {}, /\/name is missing/],
      ["describe_component", { name: "" }, /\/name\b/],
      ["describe_component", { name: ["mcp-server"] }, /\/name must be of type string/],
      ["rate_limit_status", { caller: "me" }, /\/caller\b/],
    ]) {
      const shown = JSON.stringify(args).slice(0, 40);
      test(`${name} with ${shown} tells the model what is wrong`, async () => {
        const result = await call(era, name, args);
        assert.equal(result.isError, true);
        assert.ok(result.text.startsWith(`Invalid arguments for ${name}: `), result.text);
        for (const pattern of named) assert.match(result.text, pattern);
      });
    }

    test("each tool costs what it says, and bad arguments cost nothing", async () => {
      const address = newcomer();
      let remaining = 30;
      for (const [name, args, cost] of [
        ["echo", { text: "a" }, 1],
        ["list_decisions", {}, 1],
        ["read_decision", { id: "0001" }, 1],
        ["read_decision", { id: "9999" }, 1],
        ["search_docs", { query: "rate" }, 2],
        ["describe_component", { name: "mcp-server" }, 1],
        ["rate_limit_status", {}, 0],
      ]) {
        remaining -= cost;
        const { _meta, headers } = await call(era, name, args, { address });
        assert.equal(_meta["sluice/allowance"].remaining, remaining, name);
        assert.match(headers.get("ratelimit"), new RegExp(`^"tools-call";r=${remaining};t=\\d+$`));
        assert.equal((await call(era, "echo", {}, { address })).isError, true);
      }
    });

    test("rate_limit_status tells what is left, free, also of an empty bucket", async () => {
      const address = newcomer();
      const status = async () => (await call(era, "rate_limit_status", {}, { address })).structuredContent;
      assert.deepEqual(await status(), { limit: 30, remaining: 30, nextTokenMs: 0 });
      for (let left = 29; left >= 0; left -= 1) {
        const { isError } = await call(era, "echo", { text: "a" }, { address });
        assert.equal(isError, false);
      }
      const empty = await status();
      assert.deepEqual([empty.limit, empty.remaining], [30, 0]);
      assert.ok(empty.nextTokenMs > 900_000 && empty.nextTokenMs <= 1_000_000, `${empty.nextTokenMs} ms`);
      assert.equal((await call(era, "echo", { text: "a" }, { address })).isError, true);
      assert.deepEqual((await status()).remaining, 0);
    });
  });
}

test("rate_limit_status says that nothing is limited where nothing is", async () => {
  await using worker = await start({ vars: { MCP_RATE_LIMIT: "0" } });
  const { isError, structuredContent } = await call(legacy, "rate_limit_status", {}, { worker });
  assert.equal(isError, false);
  assert.deepEqual(structuredContent, { limit: null, remaining: null, nextTokenMs: 0 });
});

test("rate_limit_status says so when the limiter can't be asked", async () => {
  await using worker = await start({ faults: { RateLimiter: "throws:broken" } });
  const { isError, text } = await call(legacy, "rate_limit_status", {}, { worker });
  assert.equal(isError, true);
  assert.match(text, /can't be asked/);
});

// A small stateless MCP server of our own on Node's http, which records what it gets and does what a test tells it to: the faults, and
// whatever must be seen byte by byte.
import { once } from "node:events";
import { createServer } from "node:http";

export const ECHO = {
  name: "echo",
  description: "Gives back the text.",
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
};

/** A tool that takes anything. */
export const anyTool = (name, more = {}) => ({ name, inputSchema: { type: "object" }, ...more });

const VERSION = "io.modelcontextprotocol/protocolVersion";

/**
 * Starts it on a free port. A request goes to what `respond` was given last, a function of (request, response, next), or to the server's
 * own answer, which is also what `next()` gives. The request has what was recorded of it on top.
 *
 * - `seen`: every request, in order, as { method, url, headers, raw, body, messages, gone }: `headers` as Node joins them, `raw` each one
 *   by itself, `body` as text, `messages` the JSON-RPC messages in it, `gone` whether it was given up before its answer had ended
 * - `tools`: what tools/list tells; `page`: so many at once; `list`: further members of its result
 * - `calls()`, `lists()`: the tools/call and tools/list messages that were seen, also those in batches
 */
export async function start(handler) {
  const upstream = {
    seen: [],
    tools: [ECHO],
    page: Infinity,
    list: {},
    handler,
    respond: (fn) => (upstream.handler = fn),
    messages: (method) => upstream.seen.flatMap(({ messages }) => messages).filter((message) => message?.method === method),
    calls: () => upstream.messages("tools/call"),
    lists: () => upstream.messages("tools/list"),
    /** The requests that brought a tools/call. */
    callRequests: () => upstream.seen.filter(({ messages }) => messages.some((message) => message?.method === "tools/call")),
    forget: () => (upstream.seen.length = 0),
  };
  const server = createServer(async (request, response) => {
    const entry = { method: request.method, url: request.url, headers: request.headers, raw: pairs(request.rawHeaders), gone: false };
    response.on("close", () => (entry.gone = !response.writableFinished));
    response.on("error", () => {});
    try {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      entry.body = Buffer.concat(chunks).toString("utf8");
    } catch {
      return; // Given up while it was sent.
    }
    entry.messages = parsed(entry.body);
    upstream.seen.push(entry);
    const next = () => answer(upstream, entry, response);
    await (upstream.handler ? upstream.handler(entry, response, next) : next());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  upstream.port = server.address().port;
  upstream.origin = `http://127.0.0.1:${upstream.port}`;
  upstream.url = `${upstream.origin}/mcp`;
  upstream.close = async () => {
    if (!server.listening) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  upstream[Symbol.asyncDispose] = upstream.close;
  return upstream;
}

const pairs = (raw) => raw.flatMap((name, index) => (index % 2 === 0 ? [[name.toLowerCase(), raw[index + 1]]] : []));

function parsed(body) {
  try {
    return [JSON.parse(body)].flat();
  } catch {
    return [];
  }
}

/** Answers with JSON. */
export function json(response, value, status = 200, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof value === "string" ? value : JSON.stringify(value));
}

/** The result of a call, as a message. */
export const result = (id, text, more = {}) => ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }], isError: false, ...more } });

/** Begins an event stream. */
export function stream(response, headers = {}) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache", ...headers });
  response.flushHeaders();
}

/** One whole event. */
export const event = (message, id) => `event: message\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(message)}\n\n`;

/** Answers only requests that bring a tools/call with `fn`, and the others as usual. */
export const onCall = (fn) => (request, response, next) =>
  request.messages.some((message) => message?.method === "tools/call") ? fn(request, response, next) : next();

function answer(upstream, request, response) {
  if (request.method !== "POST") return json(response, { error: "not found" }, request.url.startsWith("/.well-known") ? 404 : 405);
  const answers = request.messages.filter((message) => message?.id !== undefined && message.method).map((message) => reply(upstream, message));
  if (answers.length === 0) return response.writeHead(202).end();
  json(response, request.body.trimStart().startsWith("[") ? answers : answers[0]);
}

function reply(upstream, { id, method, params }) {
  const version = params?._meta?.[VERSION];
  const ok = (value) => ({ jsonrpc: "2.0", id, result: version ? { resultType: "complete", ...value } : value });
  switch (method) {
    case "initialize": {
      const serverInfo = { name: "scripted", version: "1.0.0" };
      return ok({ protocolVersion: params?.protocolVersion ?? "2025-11-25", capabilities: { tools: {} }, serverInfo });
    }
    case "ping":
      return ok({});
    case "tools/list": {
      const from = Number(params?.cursor ?? 0);
      const to = from + upstream.page;
      const more = to < upstream.tools.length ? { nextCursor: String(to) } : {};
      return ok({ tools: upstream.tools.slice(from, to), ...more, ...upstream.list });
    }
    case "tools/call": {
      const { name, arguments: args = {} } = params;
      if (!upstream.tools.some((tool) => tool.name === name)) {
        return { jsonrpc: "2.0", id, error: { code: -32602, message: `Unknown tool: ${name}` } };
      }
      return ok({ content: [{ type: "text", text: args.text ?? JSON.stringify(args) }], isError: false });
    }
    default:
      return { jsonrpc: "2.0", id, error: { code: -32601, message: `Method not found: ${method}` } };
  }
}

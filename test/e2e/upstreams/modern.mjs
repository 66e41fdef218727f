// A stateless server of 2026-07-28, made with the official server package; it serves the revisions before as well. In this process.
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

const text = (value) => ({ content: [{ type: "text", text: String(value) }] });

function make(state) {
  const server = new McpServer({ name: "modern", version: "1.0.0" });
  const echo = { description: "Gives back the text.", inputSchema: z.object({ text: z.string().min(1) }) };
  server.registerTool("echo", echo, ({ text: given }) => text(given));
  const add = { description: "Adds two numbers.", inputSchema: z.object({ a: z.number(), b: z.number() }) };
  server.registerTool("add", add, ({ a, b }) => text(a + b));
  const look = { description: "Looks at nothing.", inputSchema: z.object({}), annotations: { readOnlyHint: true } };
  server.registerTool("look", look, () => text("nothing"));
  const fail = { description: "Fails.", inputSchema: z.object({}) };
  server.registerTool("fail", fail, () => ({ ...text("It failed."), isError: true }));
  const slow = { description: "Answers late.", inputSchema: z.object({ ms: z.number().int().min(0).max(60_000) }) };
  server.registerTool("slow", slow, async ({ ms }) => {
    state.slow += 1;
    await sleep(ms);
    return text(ms);
  });
  return server;
}

/**
 * Starts it on a free port. `server.seen` are the messages that it got, as { method, name, headers }; `server.slow` counts the calls of
 * slow that began; `server.notify` tells those who listen that something has changed.
 */
export async function start() {
  const server = { seen: [], slow: 0 };
  const handler = createMcpHandler(() => make(server));
  const handle = toNodeHandler(handler);
  const http = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    let body;
    try {
      body = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    } catch {
      // No message.
    }
    for (const { method, params } of body === undefined ? [] : [body].flat()) {
      server.seen.push({ method, name: params?.name, headers: request.headers });
    }
    await handle(request, response, body);
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  server.url = new URL(`http://127.0.0.1:${http.address().port}/mcp`);
  server.notify = handler.notify;
  server.calls = () => server.seen.filter(({ method }) => method === "tools/call");
  server.close = async () => {
    await handler.close();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  };
  server[Symbol.asyncDispose] = server.close;
  return server;
}

// The MCP server behind the gateway, a process of its own: the least that answers a list and a call. Tells its port to whoever forked it.
import { once } from "node:events";
import { createServer } from "node:http";

const ECHO = { name: "echo", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } };

const server = createServer(async (incoming, response) => {
  let body = "";
  for await (const chunk of incoming) body += chunk;
  const { id, method, params } = JSON.parse(body);
  const result = method === "tools/list" ? { tools: [ECHO] } : { content: [{ type: "text", text: params.arguments.text }], isError: false };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
}).listen(0, "127.0.0.1");
await once(server, "listening");
process.send(server.address().port);
process.on("disconnect", () => process.exit());

// A Worker behind a service binding: a small MCP server whose one tool tells how it was asked, and how many calls it has seen.
let calls = 0;

const TOOLS = [{ name: "seen", inputSchema: { type: "object", properties: { text: { type: "string" } } } }];

function reply({ id, method }, request) {
  const ok = (result) => ({ jsonrpc: "2.0", id, result });
  if (method === "tools/list") return ok({ tools: TOOLS });
  if (method !== "tools/call") return ok({});
  calls += 1;
  const told = { calls, url: request.url, forwarded: request.headers.get("x-forwarded-for") };
  return ok({ content: [{ type: "text", text: JSON.stringify(told) }], isError: false });
}

export default {
  async fetch(request) {
    if (request.method !== "POST") return Response.json({ url: request.url });
    const message = await request.json();
    return message.id === undefined ? new Response(null, { status: 202 }) : Response.json(reply(message, request));
  },
};

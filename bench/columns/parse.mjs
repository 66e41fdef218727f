// The least that a Worker can do which looks at what it was sent: the body is parsed, the answer a constant.
const BODY = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "hello" }] } });

export default {
  async fetch(request) {
    const { method } = await request.json();
    if (!method) return new Response(null, { status: 400 });
    return new Response(BODY, { headers: { "content-type": "application/json" } });
  },
};

// The least that a Worker can do: a constant.
const BODY = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "hello" }] } });

export default {
  fetch: () => new Response(BODY, { headers: { "content-type": "application/json" } }),
};

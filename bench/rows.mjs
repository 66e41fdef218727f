// What is asked of each column, and how an answer is known to be the right one.

const request = (method, params) => ({ jsonrpc: "2.0", id: 1, method, ...(params && { params }) });
const echo = (args) => request("tools/call", { name: "echo", arguments: args });

const CALL = echo({ text: "hello" });
const RAN = /"text":"hello"/;
const REFUSED = /"isError":true.*Wait|Wait.*"isError":true/s;
const INVALID = /"isError":true/;

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** In the order of the table. `of` says which columns are asked, and what their buckets do. */
export const rows = [
  { name: "tools/list", message: request("tools/list"), right: /"name":"echo"/, of: { ours: "admits", peer: "admits" } },
  {
    name: "tools/call, admitted",
    message: CALL,
    right: RAN,
    of: { ours: "admits", peer: "admits", floor: "admits", parse: "admits", hello: "admits" },
  },
  { name: "refused by the object", message: CALL, right: REFUSED, of: { ours: "refuses", peer: "refuses", floor: "refuses" } },
  { name: "refused and remembered", message: CALL, right: REFUSED, of: { ours: "remembers", peer: "refuses" } },
  { name: "bad arguments", message: echo({ text: 7 }), right: INVALID, of: { ours: "admits", peer: "admits" } },
  { name: "server/discover", message: request("server/discover", { _meta: META }), right: /"supportedVersions"/, of: { ours: "admits", peer: "admits" } },
  // echo takes 4,000 characters, so this is parsed and refused.
  { name: "an argument of 64 KB", message: echo({ text: "x".repeat(65_536) }), right: INVALID, of: { ours: "admits", peer: "admits" } },
  { name: "through the gateway", message: CALL, right: RAN, of: { ours: "gateway", behind: "admits" } },
];

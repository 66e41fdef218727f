// The Worker's entry. Requests and responses cross the border to Rust as text: each piece by itself would cost as much as all of it.
//
// A panic stops the whole WebAssembly instance: the requests in flight in it never settle. The next event gets a new instance, but nobody
// answers those that were in flight. This does.
import "./shell/imports.mjs";
import { run } from "./shell/instance.mjs";
import { objects } from "./shell/object.mjs";

/** The object of one caller, or of one bucket that callers share: src/limiter/object.rs. */
export const RateLimiter = objects({ step: "limiter_step", alarm: "limiter_alarm" });

/** The object that adds up what all isolates count: src/stats/object.rs. */
export const CallStats = objects({ step: "stats_step" });

function internalError() {
  const error = { code: -32603, message: "Internal error" };
  return Response.json({ jsonrpc: "2.0", error }, { status: 500 });
}

// The fields that nearly every request is asked for. Rust asks for others by itself (src/door/incoming.rs).
const FIELDS = [
  ...["origin", "content-type", "content-encoding", "content-length", "accept", "authorization"],
  ...["cf-connecting-ip", "mcp-protocol-version", "mcp-method", "mcp-name"],
];

// Method and URL, and the name and the value of each of these fields, which is a zero where it is missing: a line each. None of them can
// hold a zero or the end of a line.
function head({ method, url, headers }) {
  let text = `${method}\n${url}`;
  for (const name of FIELDS) text += `\n${name}\n${headers.get(name) ?? "\0"}`;
  return text;
}

// The other way round: what the constructor takes beside a body, as JSON on one line, and the body.
function response(text) {
  const end = text.indexOf("\n");
  return new Response(text.slice(end + 1) || null, JSON.parse(text.slice(0, end)));
}

export default {
  async fetch(request, env, context) {
    try {
      const answer = (await run("answer", context, env, head(request), request, env, context)) ?? internalError();
      // What comes from a server behind is a response already.
      return typeof answer === "string" ? response(answer) : answer;
    } catch (error) {
      console.error("The request failed outside of Rust's reach:", error);
      return internalError();
    }
  },
};

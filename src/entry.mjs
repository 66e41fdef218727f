// The Worker's entry: what Rust built, behind a guard that answers when Rust can't any more.
//
// A panic stops the whole WebAssembly instance: the requests in flight in it never settle, and the deadlines that Rust had
// set for them don't fire either. The next event gets a new instance, but nobody answers those that were in flight. This does.
import { call, whenBroken } from "./shell/instance.mjs";
import { objects } from "./shell/object.mjs";

/** The object of one caller, or of one bucket that callers share: src/limiter/object.rs. */
export const RateLimiter = objects({ step: "limiter_step", alarm: "limiter_alarm" });

/** The object that adds up what all isolates count: src/stats/object.rs. */
export const CallStats = objects({ step: "stats_step" });

function internalError() {
  const error = { code: -32603, message: "Internal error" };
  return Response.json({ jsonrpc: "2.0", error }, { status: 500 });
}

// A body is only looked at where it is a stream: the runtime makes an object of it.
const isStream = (response) => /^\s*text\/event-stream/i.test(response.headers.get("content-type")) && response.body !== null;

/**
 * An answer that is streamed goes on when the guard is done, so it is watched from outside: the stream of a broken instance would never
 * end. It is handed on piece by piece, since a pipe that waits for the next piece doesn't hear that it is over.
 */
function watched(response, { lost, end }) {
  const { readable, writable } = new IdentityTransformStream();
  const [reader, writer] = [response.body.getReader(), writable.getWriter()];
  const stop = (error) => {
    end();
    writer.abort(error).catch(() => {});
    reader.cancel(error).catch(() => {});
  };
  lost.then(() => stop(new Error("the instance is broken")));
  // The client has gone.
  writer.closed.catch(stop);
  const handOn = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      await writer.write(value);
    }
    end();
    await writer.close();
  };
  handOn().catch(stop);
  return new Response(readable, response);
}

export default {
  async fetch(request, env, context) {
    let guard;
    let goesOn = false;
    try {
      const answer = call("answer", context, env, request, env, context);
      if (!(answer instanceof Promise)) return answer;
      guard = whenBroken();
      const response = (await Promise.race([answer, guard.lost])) ?? internalError();
      goesOn = isStream(response);
      return goesOn ? watched(response, guard) : response;
    } catch (error) {
      console.error("The request failed outside of Rust's reach:", error);
      return internalError();
    } finally {
      if (!goesOn) guard?.end();
    }
  },
};

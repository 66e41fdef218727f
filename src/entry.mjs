// The Worker's entry: what Rust built, behind a guard that answers when Rust can't any more.
//
// A panic stops the whole WebAssembly instance: the requests in flight in it never settle, and the deadlines that Rust had
// set for them don't fire either. The shim that `worker-build` makes marks the broken instance and starts a new one for the
// next event, but nobody answers those that were in flight. This does: it watches the mark while a request is out.
//
// What is built is imported by a name that package.json resolves, so that the tests can put another build in its place.
import Entrypoint from "#built";

export { CallStats, RateLimiter } from "#built";

/** How often the mark is looked at while a request is out, in milliseconds. */
const WATCH_MS = 200;

/** `worker-build`'s mark: a panic sets `criticalError`, and the new instance has another `instanceId`. */
const mark = () => globalThis.__worker_init_state;

function internalError() {
  const error = { code: -32603, message: "Internal error" };
  return Response.json({ jsonrpc: "2.0", error }, { status: 500 });
}

/** Whether the instance that a request runs in is broken. */
const isBroken = (instanceId) => mark().criticalError || mark().instanceId !== instanceId;

/**
 * An answer that is streamed goes on when the guard is done, so it is watched from outside: the stream of a broken instance would never
 * end. It is handed on piece by piece, since a pipe that waits for the next piece doesn't hear that it is over.
 */
function watched(response, instanceId) {
  if (!response.body || !/^\s*text\/event-stream/i.test(response.headers.get("content-type"))) return response;
  const { readable, writable } = new IdentityTransformStream();
  const [reader, writer] = [response.body.getReader(), writable.getWriter()];
  const stop = (error) => {
    clearInterval(timer);
    writer.abort(error).catch(() => {});
    reader.cancel(error).catch(() => {});
  };
  const timer = setInterval(() => {
    if (isBroken(instanceId)) stop(new Error("the instance is broken"));
  }, WATCH_MS);
  // The client has gone.
  writer.closed.catch(stop);
  const handOn = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      await writer.write(value);
    }
    clearInterval(timer);
    await writer.close();
  };
  handOn().catch(stop);
  return new Response(readable, response);
}

/** Settles with an answer as soon as the instance that a request runs in is found broken. */
function brokenInstance(instanceId, signal) {
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      if (isBroken(instanceId)) resolve(internalError());
    }, WATCH_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
  });
}

export default {
  async fetch(request, env, context) {
    const done = new AbortController();
    try {
      // The shim's own entrypoint: it is what puts a new instance in the place of a broken one.
      const answer = new Entrypoint(context, env).fetch(request);
      const { instanceId } = mark();
      return watched(await Promise.race([answer, brokenInstance(instanceId, done.signal)]), instanceId);
    } catch (error) {
      console.error("The request failed outside of Rust's reach:", error);
      // A trap that no panic announced, such as an overflow of the stack.
      if (error instanceof WebAssembly.RuntimeError) mark().criticalError = true;
      return internalError();
    } finally {
      done.abort();
    }
  },
};

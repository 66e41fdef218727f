// The Worker with a door to its objects, for tests that ask them themselves: POST /object?name=NAME&path=PATH hands the body to the
// caller's object. At the path /alarm its alarm goes off, whether one is set or not; at /abort the object is reset, as the runtime does
// at a deploy or after an error of its own; all else is the real object's.
// A request with the header test-without-address comes without a client's address, as no request does over the network.
// With the header test-client-leaves: MS the client counts as gone after that time: local workerd tells of it in mid-stream only.
// With the header test-panic the front's own question makes the object panic (the build with fixtures).
// With the header test-gate: fails or hangs the flood gate does.
// Each alarm that the runtime sets off is logged as `alarm`.
import * as real from "../../../src/entry.mjs";

export { CallStats } from "../../../src/entry.mjs";

export default {
  async fetch(request, env, context) {
    const url = new URL(request.url);
    if (request.headers.has("test-without-address")) {
      request = new Request(request);
      request.headers.delete("cf-connecting-ip");
    }
    const gate = request.headers.get("test-gate");
    if (gate !== null) env = { ...env, FLOOD_GATE: new Ratelimit(gate) };
    const leaves = request.headers.get("test-client-leaves");
    if (leaves !== null) request = new Request(request, { signal: AbortSignal.timeout(Number(leaves)) });
    if (request.headers.has("test-panic")) return real.default.fetch(request, panicking(env), context);
    if (url.pathname !== "/object") return real.default.fetch(request, env, context);
    const object = env.RATE_LIMITER.getByName(url.searchParams.get("name"));
    const path = url.searchParams.get("path") ?? "/";
    try {
      if (path === "/alarm") return new Response(await object.setOff());
      if (path === "/abort") return new Response(await object.reset());
      return new Response(await object.ask(await request.text()));
    } catch (error) {
      return new Response(`the object failed: ${error}`, { status: 500 });
    }
  },
};

// Bindings are told apart by the names of their classes.
class Ratelimit {
  constructor(fault) {
    this.fault = fault;
  }

  async limit() {
    if (this.fault === "hangs") await new Promise(() => {});
    throw new Error("the gate fails");
  }
}

// The same environment, but every question to a caller's object is one that it panics on.
function panicking(env) {
  const stub = (object) => ({ ask: () => object.ask("panic") });
  const RATE_LIMITER = new Proxy(env.RATE_LIMITER, {
    get: (objects, key) => (key === "getByName" ? (name) => stub(objects.getByName(name)) : objects[key]),
  });
  return { ...env, RATE_LIMITER };
}

export class RateLimiter extends real.RateLimiter {
  async setOff() {
    await super.alarm();
    return "done";
  }

  reset() {
    this.ctx.abort("reset on demand");
  }

  alarm() {
    console.log("alarm");
    return super.alarm();
  }
}

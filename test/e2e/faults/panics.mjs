// The Worker, and beside it a way to make an object panic: POST /panic-object?name=...
import entry from "../../../src/entry.mjs";

export { CallStats, RateLimiter } from "../../../src/entry.mjs";

export default {
  async fetch(request, env, context) {
    const url = new URL(request.url);
    if (url.pathname !== "/panic-object") return entry.fetch(request, env, context);
    const asked = env.RATE_LIMITER.getByName(url.searchParams.get("name")).fetch("https://object/panic", { method: "POST" });
    // The object never answers: it is enough that it was asked.
    const waited = new Promise((resolve) => setTimeout(() => resolve(new Response("no answer")), 300));
    return Promise.race([asked.catch(() => new Response("failed")), waited]);
  },
};

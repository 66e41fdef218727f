// The Worker with objects that record what they are told and what they answer, in the order in which they were done: POST
// /recorded?name=NAME tells it as an array of [message, answer]. An object decides when it is told, so the order is that of decisions.
import { DurableObject } from "cloudflare:workers";
import * as real from "../../../src/entry.mjs";

export { CallStats } from "../../../src/entry.mjs";

// By the objects' names. Not in the objects: those are thrown out of memory when they are idle.
const recorded = new Map();

export default {
  fetch(request, env, context) {
    const url = new URL(request.url);
    if (url.pathname !== "/recorded") return real.default.fetch(request, env, context);
    return Response.json(recorded.get(url.searchParams.get("name")) ?? []);
  },
};

export class RateLimiter extends DurableObject {
  constructor(state, env) {
    super(state, env);
    this.object = new real.RateLimiter(state, env);
    const { name } = state.id;
    if (!recorded.has(name)) recorded.set(name, []);
    this.done = recorded.get(name);
  }

  async ask(message) {
    // The decision is made before anything is awaited.
    const answering = this.object.ask(message);
    const entry = [JSON.parse(message)];
    this.done.push(entry);
    const answer = await answering;
    entry.push(JSON.parse(answer));
    return answer;
  }

  alarm() {
    return this.object.alarm();
  }
}

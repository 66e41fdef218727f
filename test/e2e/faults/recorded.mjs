// The Worker with objects that record what they are told and what they answer, in the order in which they were done: POST
// /recorded?name=NAME tells it as an array of [message, answer]. What an object does after having read a message is done in one
// step, so the order of answers is that of decisions - but for one that sets an alarm, which waits for that.
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

export class RateLimiter {
  constructor(state, env) {
    this.object = new real.RateLimiter(state, env);
    const { name } = state.id;
    if (!recorded.has(name)) recorded.set(name, []);
    this.done = recorded.get(name);
  }

  async fetch(request) {
    const body = await request.text();
    const answer = await this.object.fetch(new Request(request.url, { method: "POST", body }));
    const told = answer.clone();
    const entry = [JSON.parse(body)];
    this.done.push(entry);
    entry.push(await told.json());
    return answer;
  }

  alarm() {
    return this.object.alarm();
  }
}

// Sluice, whose callers' objects count what they ask of their storage.
import * as sluice from "../../src/entry.mjs";
import { counting, counts, storage } from "./counted.mjs";

export { CallStats } from "../../src/entry.mjs";

export class RateLimiter extends sluice.RateLimiter {
  constructor(context, env) {
    super(context, env);
    const counted = { id: context.id, storage: storage(context) };
    Object.defineProperty(this, "ctx", { value: counted });
  }

  ask(message) {
    counts.questions += 1;
    return super.ask(message);
  }
}

export default counting(sluice.default);

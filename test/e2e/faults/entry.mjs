// The Worker with objects that can be made to fail, for test/e2e/harness.mjs: the real front, and the real objects behind a fault.
//
// The vars FAULT_RATE_LIMITER and FAULT_CALL_STATS say how, as `kind` or `kind:argument`:
//   (empty)           the real object
//   throws:TEXT       throws an error
//   throws-string     throws what isn't an Error
//   overloaded:TEXT   throws an error marked overloaded, as the runtime does
//   retryable:TEXT    throws an error marked retryable
//   hangs             never answers, and the real object isn't asked
//   slow:MS           asks the real object after that time
//   late:MS           asks the real object at once, and answers after that time (the debit is made)
//   answers:TEXT      answers with this text
//   number:NUMBER     answers with what isn't text
//   once:KIND:...     the first question to each object meets the fault, the following ones the real object
//   until:N:KIND:...  the first N questions to each object meet the real object, the following ones the fault
//   own:KIND:...      a bucket that callers share meets the real object, all others the fault
// Each question is logged as `asked RateLimiter TEXT`, so that a test can pin it.
import { DurableObject } from "cloudflare:workers";
import * as real from "../../../src/entry.mjs";

export { default } from "../../../src/entry.mjs";

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, Number(ms)));

const flagged = (text, flag) => Object.assign(new Error(text || `the object is ${flag}`), { [flag]: true });

async function meet(kind, argument, message, object) {
  switch (kind) {
    case "":
      return object.ask(message);
    case "throws":
      throw new Error(argument || "the object throws");
    case "throws-string":
      throw argument || "a string";
    case "overloaded":
    case "retryable":
      throw flagged(argument, kind);
    case "hangs":
      // A timer keeps the runtime from seeing that nothing can ever answer, which it would tell the caller.
      await sleep(600_000);
      return "too late";
    case "slow":
      await sleep(argument);
      return object.ask(message);
    case "late": {
      const answer = await object.ask(message);
      await sleep(argument);
      return answer;
    }
    case "answers":
      return argument;
    case "number":
      return Number(argument);
    default:
      throw new Error(`no such fault: ${kind}`);
  }
}

function split(fault) {
  const colon = fault.indexOf(":");
  return colon < 0 ? [fault, ""] : [fault.slice(0, colon), fault.slice(colon + 1)];
}

const faulty = (name, variable) =>
  class extends DurableObject {
    constructor(state, env) {
      super(state, env);
      this.object = new real[name](state, env);
      this.fault = env[variable] ?? "";
      this.shared = ["anonymous", "shared"].includes(state.id.name);
      this.asked = 0;
    }

    async ask(message) {
      console.log(`asked ${name} ${message}`);
      let [kind, argument] = split(this.fault);
      if (kind === "own") [kind, argument] = this.shared ? ["", ""] : split(argument);
      if (kind === "once") [kind, argument] = this.asked === 0 ? split(argument) : ["", ""];
      if (kind === "until") {
        const [most, fault] = split(argument);
        [kind, argument] = this.asked < Number(most) ? ["", ""] : split(fault);
      }
      this.asked += 1;
      return meet(kind, argument, message, this.object);
    }

    alarm() {
      return this.object.alarm();
    }
  };

export const RateLimiter = faulty("RateLimiter", "FAULT_RATE_LIMITER");
export const CallStats = faulty("CallStats", "FAULT_CALL_STATS");

// The shell of a Durable Object: it moves one row between the object's storage and what Rust decides on it, and knows nothing of what
// either says. (Decision 0013 has what an object made in Rust alone costs.)
import { DurableObject } from "cloudflare:workers";
import { call } from "./instance.mjs";

const KEY = "row";

/** A class of objects that do what the Rust function `step` says on each message, and `alarm`, where there is one, when theirs goes off. */
export function objects({ step, alarm }) {
  return class extends DurableObject {
    // What is stored, as it was last read or written: nobody else writes it.
    #row;
    #isRead = false;

    /**
     * Answers a message; both are JSON text. Nothing can get in between reading the row and writing it, since nothing is awaited, and
     * the platform holds the answer back until what was written is durable. When that fails, it starts the object anew.
     */
    ask(message) {
      return this.#do(step, message);
    }

    alarm() {
      return alarm && this.#do(alarm);
    }

    // Rust tells in lines what to answer; the row to write, which is empty when all is to be deleted; and in milliseconds since 1970 when
    // the alarm is to go off. What isn't told stays as it is.
    #do(step, ...message) {
      const { storage } = this.ctx;
      if (!this.#isRead) {
        const stored = storage.kv.get(KEY);
        // What isn't text is no row of ours. Rust can't read it either, and says what becomes of it.
        this.#row = stored === undefined ? undefined : String(stored);
        this.#isRead = true;
      }
      const [answer, row, at] = call(step, this.ctx, this.env, [...message, this.#row, Date.now()]).split("\n");
      if (row === "") {
        const deleted = storage.deleteAll();
        this.#row = undefined;
        return deleted.then(() => answer);
      }
      if (row !== undefined) {
        storage.kv.put(KEY, row);
        this.#row = row;
      }
      if (at !== undefined) return storage.setAlarm(Number(at)).then(() => answer);
      return answer;
    }
  };
}

// What Rust asks of JavaScript. It waits for nothing by itself: what it waits for has a number, under which it is told what came of it
// (src/platform/waiting.rs). So no closure is made on the other side of the border, which costs more than the waiting.
import { broken, finished, number, settle } from "./instance.mjs";
import { watched } from "./watched.mjs";

// What can come of it.
const [VALUE, ERROR, LATE] = [0, 1, 2];

/** Waits for a promise, for so many milliseconds where there is such a bound. */
function wait(promise, ms) {
  const id = number();
  const timer = ms === undefined ? undefined : setTimeout(() => settle(id, LATE), ms);
  const come = (how) => (value) => {
    if (timer !== undefined) clearTimeout(timer);
    settle(id, how, value);
  };
  promise.then(come(VALUE), come(ERROR));
  return id;
}

/** Asks the object `name` of a binding, over a stub that is made for this question alone, and waits for the answer for so many milliseconds. */
function ask(env, binding, name, message, ms) {
  return wait(env[binding].getByName(name).ask(message), ms);
}

globalThis.__sluice = { ask, broken, finished, wait, watched };

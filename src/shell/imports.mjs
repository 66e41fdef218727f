// What Rust asks of JavaScript. It waits for nothing by itself: what it waits for has a number, under which it is told what came of it
// (src/platform/waiting.rs). So no closure is made on the other side of the border, which costs more than the waiting.
import { broken, finished, number, settle } from "./instance.mjs";
import { watched } from "./watched.mjs";

// What can come of it.
const [VALUE, ERROR, LATE] = [0, 1, 2];

/** Waits for a promise. */
function wait(promise) {
  const id = number();
  Promise.resolve(promise).then(
    (value) => settle(id, VALUE, value),
    (error) => settle(id, ERROR, error),
  );
  return id;
}

/** Asks the object `name` of a binding, over a stub that is made for this question alone, and waits for the answer for so many milliseconds. */
function ask(env, binding, name, message, ms) {
  const id = number();
  const answer = env[binding].getByName(name).ask(message);
  const timer = setTimeout(() => settle(id, LATE), ms);
  const come = (how) => (value) => {
    clearTimeout(timer);
    settle(id, how, value);
  };
  answer.then(come(VALUE), come(ERROR));
  return id;
}

globalThis.__sluice = { ask, broken, finished, wait, watched };

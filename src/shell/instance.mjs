// What Rust built: the functions that it exports, in an instance of WebAssembly that works.
//
// A panic stops the whole instance. The shim that `worker-build` makes marks it as broken (`criticalError`), and puts a new one in its
// place when its entrypoint is made the next time; the functions are the same then, and lead to the new one. Whoever waits for something
// out of the old one is told here.
//
// What is built is imported by a name that package.json resolves, so that the tests can put another build in its place.
import Entrypoint from "#built";

/** The shim's mark. */
const mark = () => globalThis.__worker_init_state;

/** Those that wait for an answer out of the instance, each by its number: a function that is told what it is. */
const waiting = new Map();

/** Those that only want to hear when it breaks: a function each. */
const watching = new Set();

/** No more of either: who was cut off by the runtime never says that it is over. */
const MOST = 50_000;

let last = 0;

/** A number for what is waited for, on either side of the border. No instance has had it before, so none mistakes it for its own. */
export const number = () => (last = (last + 1) >>> 0);

/**
 * The instance is broken: those that wait are told undefined. What waits belongs to a request, and only its own promises lead back to it:
 * nothing is done here but to resolve one.
 */
export function broken() {
  mark().criticalError = true;
  for (const tell of [...waiting.values(), ...watching]) tell(undefined);
  waiting.clear();
  watching.clear();
}

// A panic says so itself (src/platform/panics.rs). A trap that no panic announced is thrown: to whoever called, or, where the runtime did,
// as one of these events. So is an overflow of the stack, as a RangeError.
addEventListener("error", ({ error }) => heed(error));
addEventListener("unhandledrejection", ({ reason }) => heed(reason));

const isTrap = (error) => error instanceof WebAssembly.RuntimeError || error instanceof RangeError;

function heed(error) {
  if (isTrap(error)) broken();
}

/** Calls a function of Rust's, in a new instance when the old one is broken. What it throws goes on; `isBreak` tells what of it is a break. */
export function call(name, context, env, args, isBreak = isTrap) {
  if (mark().criticalError) {
    broken();
    new Entrypoint(context, env);
  }
  return enter(name, args, isBreak);
}

function enter(name, args, isBreak) {
  try {
    return Entrypoint.prototype[name](...args);
  } catch (error) {
    if (isBreak(error)) broken();
    throw error;
  }
}

// What runs throws nothing on purpose: whatever comes out of it went through Rust without its knowing.
const always = () => true;

/** Calls a function of Rust's that may take its time: what it comes to, or a promise of that, or of undefined when the instance breaks. */
export function run(name, context, env, ...args) {
  const id = number();
  const result = call(name, context, env, [id, ...args], always);
  if (result !== undefined) return result;
  if (waiting.size >= MOST) {
    // An error is better than no answer, should it still be there.
    const [oldest] = waiting.keys();
    finished(oldest, undefined);
  }
  return new Promise((tell) => waiting.set(id, tell));
}

/** Tells whoever waits under that number: by Rust, when what `run` began is over. */
export function finished(id, result) {
  const tell = waiting.get(id);
  waiting.delete(id);
  tell?.(result);
}

/** Tells Rust what came of what it waits for under that number. A broken instance waits for nothing, and a new one doesn't know the number. */
export function settle(id, how, value) {
  if (!mark().criticalError) enter("settled", [id, how, value], always);
}

/** Calls `tell` when the instance that is there now breaks. What this gives is to be called once that doesn't matter any more. */
export function whenBroken(tell) {
  if (watching.size >= MOST) watching.delete(watching.values().next().value);
  watching.add(tell);
  return () => watching.delete(tell);
}

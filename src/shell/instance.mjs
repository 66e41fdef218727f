// What Rust built: the functions that it exports, in an instance of WebAssembly that works.
//
// A panic stops the whole instance. The shim that `worker-build` makes marks it as broken (`criticalError`), and puts a new one in its
// place when its entrypoint is made the next time; the functions are the same then, and lead to the new one. Whoever is in flight in the
// old one is told here.
//
// What is built is imported by a name that package.json resolves, so that the tests can put another build in its place.
import Entrypoint from "#built";

/** The shim's mark. */
const mark = () => globalThis.__worker_init_state;

/** Those in flight, each a function that tells one of them that the instance is broken. */
const inFlight = new Set();

/** No more are told: who was cut off by the runtime never says that it is over. */
const MOST_IN_FLIGHT = 10_000;

function broken() {
  mark().criticalError = true;
  for (const tell of inFlight) tell();
  inFlight.clear();
}

// A panic says so itself (src/platform/panics.rs). A trap that no panic announced, such as an overflow of the stack, is thrown: to whoever
// called, or, where the runtime did, as one of these events.
globalThis.__sluice_broken = broken;
addEventListener("error", ({ error }) => heed(error));
addEventListener("unhandledrejection", ({ reason }) => heed(reason));

function heed(error) {
  if (error instanceof WebAssembly.RuntimeError) broken();
}

/** Calls a function of Rust's. What it throws goes on. */
export function call(name, context, env, ...args) {
  if (mark().criticalError) {
    broken();
    new Entrypoint(context, env);
  }
  try {
    return Entrypoint.prototype[name](...args);
  } catch (error) {
    heed(error);
    throw error;
  }
}

/**
 * Resolves to undefined when the instance that is there now breaks. `end` is to be called once that doesn't matter any more.
 *
 * What is in flight belongs to a request, and only its own promises lead back to it: nothing is done here but to resolve one.
 */
export function whenBroken() {
  let tell;
  const lost = new Promise((resolve) => (tell = () => resolve(undefined)));
  if (inFlight.size >= MOST_IN_FLIGHT) inFlight.delete(inFlight.values().next().value);
  inFlight.add(tell);
  return { lost, end: () => inFlight.delete(tell) };
}

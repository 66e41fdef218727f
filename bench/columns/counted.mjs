// An object's storage that counts what is asked of it, as it is billed: a value read or written is a row, and so is an alarm that is set.
// In the place of storage.mjs, and round Sluice's objects in ours-counted.mjs. What was counted so far is the answer to /counted.
export const counts = { questions: 0, rowsRead: 0, rowsWritten: 0, alarmsSet: 0 };

const OPERATIONS = {
  get: () => (counts.rowsRead += 1),
  put: () => (counts.rowsWritten += 1),
  setAlarm: () => {
    counts.alarmsSet += 1;
    counts.rowsWritten += 1;
  },
};

const watched = (target) =>
  new Proxy(target, {
    get(_, name) {
      const value = target[name];
      if (name === "kv") return watched(value);
      if (typeof value !== "function") return value;
      return (...args) => {
        OPERATIONS[name]?.();
        return value.apply(target, args);
      };
    },
  });

export const storage = (context) => watched(context.storage);

/** The same Worker, whose objects count. */
export const counting = (worker) => ({
  fetch: (request, env, context) =>
    new URL(request.url).pathname === "/counted" ? Response.json(counts) : worker.fetch(request, env, context),
});

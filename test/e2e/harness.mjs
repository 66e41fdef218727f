// The built Worker in workerd, for tests. See `start`.
//
// wrangler.toml is the one source of bindings and vars. Its build command isn't used: the build is checked once here (scripts/build.mjs),
// and all of a test file's Workers take it as it is.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { after, before } from "node:test";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";
import { build, output } from "../../scripts/build.mjs";
import { root } from "../../scripts/run.mjs";

// Both are read when wrangler is loaded: no metrics, and no question to the network about where this machine is.
process.env.WRANGLER_SEND_METRICS = "false";
process.env.CLOUDFLARE_CF_FETCH_ENABLED = "false";
const { createTestHarness, unstable_readConfig: readConfig } = await import("wrangler");

// As it is before `inFolder` changes it: of two that start at once, one's folder must not lie in the other's, which is removed.
const temporary = tmpdir();

const FAULT_VARS = { RateLimiter: "FAULT_RATE_LIMITER", CallStats: "FAULT_CALL_STATS" };

/**
 * Starts the Worker on a free port.
 *
 * @param {object} [options]
 * @param {Record<string, unknown>} [options.vars] over wrangler.toml's: a string, number or table; null or undefined removes the var
 * @param {object} [options.config] over wrangler.toml's other keys, one by one: { ratelimits: [...], services: [...] }
 * @param {boolean} [options.fixtures] the build with the conformance suite's tools
 * @param {{RateLimiter?: string, CallStats?: string}} [options.faults] what these objects do instead: faults/entry.mjs
 * @param {object[]} [options.others] further Workers, as wrangler configs: what service bindings lead to
 * @param {string} [options.main] another entry module, relative to the repository's root
 */
export async function start(options = {}) {
  await build(options.fixtures ? "fixtures" : "shipped");

  // Objects live in Miniflare's temporary folder: with one of our own their databases can be found.
  const folder = mkdtempSync(join(temporary, "sluice-"));
  let current = options;
  const harness = createTestHarness(workers(current));
  const { url } = await inFolder(folder, () => harness.listen()).catch(async (error) => {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  });
  const worker = harness.getWorker("sluice");

  const idOf = async (binding, name) => (await worker.getEnv())[binding].idFromName(name).toString();

  // Files of the objects that have stored anything, as { id, file }.
  const stored = (binding) => {
    const directory = `sluice-${classOf(binding)}`;
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.parentPath.endsWith(join("do", directory)) && /^[0-9a-f]{64}\.sqlite$/.test(entry.name))
      .map((entry) => ({ id: entry.name.slice(0, 64), file: join(entry.parentPath, entry.name) }));
  };

  const sluice = {
    url,

    ...http(url),

    /** Throws the object out of memory; its storage stays. */
    evict: (name, binding = "RATE_LIMITER") => worker.evictDurableObject(binding, { name }),

    /** The ids of all objects that ever stored anything: an emptied one stays listed. */
    objects: (binding = "RATE_LIMITER") => worker.listDurableObjectIds(binding),

    /** An object's id, from its name. */
    id: (name, binding = "RATE_LIMITER") => idOf(binding, name),

    /**
     * What objects have stored: an array of { id, tables, all, row, alarm }. `tables` is { name: rows }, integers as bigint, without the
     * tables of the runtime's and Miniflare's own; `all` are the names of all tables there are (but `__miniflare_do_name`, which Miniflare
     * writes for every object that is asked anything): none after deleteAll. `row` is the text that the object keeps in its key-value
     * storage, or undefined; `alarm` the time that it is set for in ms, or null. `name` picks one object.
     */
    async databases({ name, binding = "RATE_LIMITER" } = {}) {
      const only = name === undefined ? undefined : await idOf(binding, name);
      const found = stored(binding).filter(({ id }) => only === undefined || id === only);
      return Promise.all(found.map(async ({ id, file }) => ({ id, ...(await readDatabase(file)) })));
    },

    /** Runs SQL that writes on one object's file. Evict the object first and ask it afterwards, so that it reads what was written. */
    async write(name, sql, { binding = "RATE_LIMITER" } = {}) {
      const id = await idOf(binding, name);
      const found = stored(binding).find((object) => object.id === id);
      if (!found) throw new Error(`${name} has stored nothing yet`);
      const database = new DatabaseSync(found.file, { timeout: BUSY_MS });
      try {
        database.exec(sql);
      } finally {
        database.close();
      }
    },

    /** What one object has stored: { all, row, alarm } as above; with nothing stored { all: [], row: undefined, alarm: null }. */
    async stored(name, binding = "RATE_LIMITER") {
      const [found] = await sluice.databases({ name, binding });
      const { all, row, alarm } = found ?? { all: [], alarm: null };
      return { all, row, alarm };
    },

    /**
     * Puts this text in the place of the row that an object keeps, as if another version had written it. The object must have been asked
     * something before; it is evicted, so that it reads what was written.
     */
    async store(name, text, binding = "RATE_LIMITER") {
      await sluice.evict(name, binding);
      const value = `X'${serialize(text).toString("hex")}'`;
      await sluice.write(
        name,
        `CREATE TABLE IF NOT EXISTS _cf_KV (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
         INSERT OR REPLACE INTO _cf_KV VALUES ('row', ${value});`,
        { binding },
      );
    },

    /** What the Worker and its objects logged, as { level, message, timestamp }; with a pattern, only the lines that match. */
    logs: (pattern) => harness.getLogs().filter(({ message }) => !pattern || message.match(pattern)),

    /** Waits until a line matches (logs arrive a little after the answer), and resolves to all that do. */
    async logged(pattern, { count = 1, wait = 3_000 } = {}) {
      for (const end = Date.now() + wait; ; await sleep(20)) {
        const lines = sluice.logs(pattern);
        if (lines.length >= count) return lines;
        if (Date.now() > end) {
          const all = sluice.logs().map(({ level, message }) => `  ${level}: ${message}`);
          throw new Error(`${lines.length} log lines, not ${count}, match ${pattern} of:\n${all.join("\n")}`);
        }
      }
    },

    clearLogs: () => harness.clearLogs(),

    /** Reloads the Worker with other options, laid over the ones it has. Storage stays, memory goes: a deploy. */
    async update(changes) {
      current = {
        ...current,
        ...changes,
        vars: { ...current.vars, ...changes.vars },
        faults: changes.faults ?? current.faults,
      };
      await build(current.fixtures ? "fixtures" : "shipped");
      await inFolder(folder, () => harness.update(workers(current)));
    },

    async close() {
      await harness.close();
      rmSync(folder, { recursive: true, force: true });
    },
    [Symbol.asyncDispose]: () => sluice.close(),
  };
  return sluice;
}

/** Ways to ask the Worker at this URL. */
export function http(url) {
  const ways = {
    /** Like the global `fetch`, against this Worker. `address` sets cf-connecting-ip, as Cloudflare's edge does. */
    fetch(path, { address, headers, ...init } = {}) {
      const all = new Headers(headers);
      if (address !== undefined) all.set("cf-connecting-ip", address);
      return fetch(new URL(path, url), { ...init, headers: all });
    },

    /**
     * POSTs a JSON-RPC message (an object, an array, or text as it is) to /mcp. Resolves to
     * { status, headers, text, json, result, error, body }: `json` is undefined when the text isn't JSON.
     */
    async mcp(message, { address, headers = {}, ...init } = {}) {
      const body = typeof message === "string" || message instanceof Uint8Array ? message : JSON.stringify(message);
      const response = await ways.fetch("/mcp", {
        method: "POST",
        body,
        address,
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
        ...init,
      });
      const text = await response.text();
      let json;
      try {
        json = JSON.parse(text);
      } catch {
        // Left undefined.
      }
      return { status: response.status, headers: response.headers, text, json, result: json?.result, error: json?.error };
    },

    /**
     * Sends these bytes over a plain socket and resolves to what came back as text, when the other end closes or after `wait` ms of
     * silence. For HTTP that no client library would send.
     */
    raw(bytes, { wait = 1_000 } = {}) {
      return new Promise((resolve, reject) => {
        let answer = "";
        const socket = connect(Number(url.port), url.hostname, () => socket.write(bytes));
        socket.setEncoding("latin1");
        socket.setTimeout(wait, () => socket.destroy());
        socket.on("data", (data) => (answer += data));
        socket.on("close", () => resolve(answer));
        socket.on("error", (error) => (answer ? resolve(answer) : reject(error)));
      });
    },
  };
  return ways;
}

/** The Worker that the tests of a suite share: started before the first of them, closed after the last. */
export function worker(options) {
  const holder = {};
  before(async () => (holder.sluice = await start(options)));
  after(() => holder.sluice?.close());
  return new Proxy(holder, { get: (_, key) => holder.sluice[key] });
}

/** What wrangler.toml says. */
export const fromFile = readConfig({ config: join(root, "wrangler.toml") }, { hideWarnings: true });

const classOf = (binding) => fromFile.durable_objects.bindings.find(({ name }) => name === binding).class_name;

function workers({ vars = {}, config = {}, fixtures, faults, others = [], main }) {
  const { name, compatibility_date, compatibility_flags, durable_objects, migrations, ratelimits, services } = fromFile;
  const all = { ...fromFile.vars, ...vars };
  for (const [object, fault] of Object.entries(faults ?? {})) all[FAULT_VARS[object]] = fault;
  for (const [key, value] of Object.entries(all)) if (value === null || value === undefined) delete all[key];
  const sluice = {
    ...{ name, compatibility_date, compatibility_flags, durable_objects, migrations, ratelimits, services },
    main: join(root, main ?? (faults ? "test/e2e/faults/entry.mjs" : "src/entry.mjs")),
    // package.json leads #built to the shipped build.
    alias: { "#built": join(output(fixtures ? "fixtures" : "shipped"), "index.js") },
    ...config,
    vars: all,
  };
  return { root, workers: [{ config: sluice }, ...others.map((other) => ({ config: other }))] };
}

// Miniflare takes its temporary folder from the environment. Starts in one process come one after the other, so that each gets its own.
let turn = Promise.resolve();
function inFolder(folder, work) {
  const mine = turn.then(async () => {
    const before = process.env.TMPDIR;
    process.env.TMPDIR = folder;
    try {
      return await work();
    } finally {
      if (before === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = before;
    }
  });
  turn = mine.catch(() => {});
  return mine;
}

// How long to wait for a database that is locked.
const BUSY_MS = 5_000;

// SQLite's code for what only a writer could do (SQLITE_READONLY), in the lower bits.
const READ_ONLY = 8;

// Read-only, beside the object that may be writing: SQLite's write-ahead log allows that. Between two steps of the writer there can be a
// journal that only a writer may roll back; then it is looked at again.
async function readDatabase(file) {
  for (const end = Date.now() + BUSY_MS; ; await sleep(20)) {
    try {
      return lookInto(file);
    } catch (error) {
      if ((error.errcode & 0xff) !== READ_ONLY || Date.now() > end) throw error;
    }
  }
}

function lookInto(file) {
  const database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_MS });
  try {
    const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all().map((row) => row.name);
    const rows = (query) => {
      const statement = database.prepare(query);
      statement.setReadBigInts(true);
      return statement.all().map((row) => ({ ...row }));
    };
    const own = names.filter((name) => !/^(_cf_|sqlite_|__miniflare_)/.test(name));
    // The runtime keeps the alarm's time, in nanoseconds, under key 1.
    const [alarm] = names.includes("_cf_METADATA") ? rows("SELECT value FROM _cf_METADATA WHERE key = 1") : [];
    const [kept] = names.includes("_cf_KV") ? rows("SELECT value FROM _cf_KV WHERE key = 'row'") : [];
    return {
      all: names.filter((name) => name !== "__miniflare_do_name"),
      row: kept && deserialize(kept.value),
      tables: Object.fromEntries(own.map((name) => [name, rows(`SELECT * FROM "${name}"`)])),
      alarm: alarm?.value == null ? null : Math.round(Number(alarm.value) / 1e6),
    };
  } finally {
    database.close();
  }
}

// One Worker in plain workerd, a process of its own: for tests of what crosses the network, and for measurements.
import { build as bundle } from "esbuild";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import workerd from "workerd";

/**
 * Serves a Worker on a free port of this machine. Resolves to { url, pid, spawned, said, close }: `spawned` is when, as
 * performance.now() tells it, and `said` the end of what workerd printed.
 *
 * @param {object} worker
 * @param {string} worker.entry its entry module, which is bundled
 * @param {Record<string, string>} [worker.alias] where modules of these names are, as esbuild takes it
 * @param {string} [worker.wasm] the one WebAssembly module that it imports
 * @param {Record<string, unknown>} [worker.vars] a string, number or table each; null or undefined is none
 * @param {Record<string, string>} [worker.objects] bindings of Durable Objects, and their classes
 * @param {string} worker.date compatibility date
 * @param {string[]} [worker.flags] compatibility flags
 * @param {string} [worker.folder] where a folder for the objects is made; it goes with the Worker
 */
export async function serve({ entry, alias = {}, wasm, vars = {}, objects = {}, date, flags = [], folder: parent = tmpdir() }) {
  const folder = mkdtempSync(join(parent, "sluice-workerd-"));
  await bundle({
    entryPoints: [entry],
    outfile: join(folder, "index.js"),
    ...{ bundle: true, format: "esm", platform: "neutral", logLevel: "error", conditions: ["workerd", "worker", "import"] },
    ...{ mainFields: ["module", "main"], external: ["cloudflare:*", "node:*"] },
    alias,
    plugins: [{ name: "wasm", setup: ({ onResolve }) => onResolve({ filter: /\.wasm$/ }, ({ path }) => ({ path: `./${basename(path)}`, external: true })) }],
  });
  if (wasm) copyFileSync(wasm, join(folder, basename(wasm)));
  writeFileSync(join(folder, "cache.js"), NO_CACHE);
  mkdirSync(join(folder, "objects"));
  const file = join(folder, "config.capnp");
  writeFileSync(file, config({ wasm, vars, objects, date, flags, disk: join(folder, "objects") }));

  const spawned = performance.now();
  // The port that the system gave is told on this file descriptor.
  const child = spawn(workerd.default ?? workerd, ["serve", "--experimental", "--control-fd=3", file], {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text) => (said = `${said}${text}`.slice(-8_000)));
  }
  const ended = once(child, "exit");
  const close = async () => {
    child.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  const port = await Promise.race([listening(child.stdio[3]), ended.then(() => undefined)]);
  if (port === undefined) {
    await close();
    throw new Error(`workerd didn't start:\n${said}`);
  }
  const url = new URL(`http://127.0.0.1:${port}`);
  return { url, pid: child.pid, spawned, said: () => said, close, [Symbol.asyncDispose]: close };
}

async function listening(stream) {
  for await (const line of createInterface({ input: stream })) {
    const { event, socket, port } = JSON.parse(line);
    if (event === "listen" && socket === "http") return port;
  }
  return undefined;
}

// A cache that never has anything: without one, workerd's Cache API throws.
const NO_CACHE = `export default { fetch: () => new Response(null, { status: 504, headers: { "cf-cache-status": "MISS" } }) };`;

const quoted = (text) => JSON.stringify(String(text));

function config({ wasm, vars, objects, date, flags, disk }) {
  const bindings = [];
  for (const [name, value] of Object.entries(vars)) {
    if (value === null || value === undefined) continue;
    const kind = typeof value === "string" ? `text = ${quoted(value)}` : `json = ${quoted(JSON.stringify(value))}`;
    bindings.push(`(name = ${quoted(name)}, ${kind})`);
  }
  for (const [name, of] of Object.entries(objects)) bindings.push(`(name = ${quoted(name)}, durableObjectNamespace = ${quoted(of)})`);
  const namespaces = Object.values(objects).map((name) => `(className = ${quoted(name)}, uniqueKey = ${quoted(`sluice-${name}`)}, enableSql = true)`);
  const modules = [`(name = "index.js", esModule = embed "index.js")`];
  if (wasm) modules.push(`(name = ${quoted(basename(wasm))}, wasm = embed ${quoted(basename(wasm))})`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "worker", worker = .worker),
    (name = "cache", worker = .cache),
    (name = "objects", disk = (path = ${quoted(disk)}, writable = true)),
    (name = "network", network = (allow = ["public", "private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "worker")],
);
const worker :Workerd.Worker = (
  modules = [${modules.join(", ")}],
  compatibilityDate = ${quoted(date)},
  compatibilityFlags = [${flags.map(quoted).join(", ")}],
  bindings = [${bindings.join(", ")}],
  durableObjectNamespaces = [${namespaces.join(", ")}],
  durableObjectStorage = (localDisk = "objects"),
  globalOutbound = "network",
  cacheApiOutbound = "cache",
);
const cache :Workerd.Worker = (modules = [(name = "cache.js", esModule = embed "cache.js")], compatibilityDate = "2026-01-01");
`;
}

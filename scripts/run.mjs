// Running other programs with the project's own tools first on the PATH. Only Node's built-ins: used before npm has run.
import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = dirname(dirname(fileURLToPath(import.meta.url)));
export const tools = join(root, ".tools");
export const tool = (name) => join(tools, "bin", name);

// `node` is among node_modules/.bin, newer than the machine's own may be. So child processes say `node`, not process.execPath.
export const environment = (extra = {}) => ({
  ...process.env,
  PATH: `${join(root, "node_modules", ".bin")}:${process.env.PATH}`,
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false", // The Worker doesn't read request.cf, and Miniflare would ask the network for one.
  ...extra,
});

// Resolves to the exit code. The child decides when to end: an interrupt from the terminal reaches it anyway, others are passed on.
export function run(command, args, { env, cwd = root, stdio = "inherit" } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio, env: environment(env) });
    const pass = (signal) => signal === "SIGINT" || child.kill(signal);
    const signals = ["SIGINT", "SIGTERM", "SIGHUP"];
    for (const signal of signals) process.on(signal, pass);
    const done = () => {
      for (const signal of signals) process.removeListener(signal, pass);
    };
    child.on("error", (error) => {
      done();
      reject(error);
    });
    child.on("close", (code, signal) => {
      done();
      resolve(code ?? (signal ? 1 : 0));
    });
  });
}

// As `run`, but what isn't 0 ends this process with the same code.
export async function must(command, args, options) {
  const code = await run(command, args, options).catch((error) => fail(`${command}: ${error.message}`));
  if (code !== 0) {
    console.error(`Failed (${code}): ${command} ${args.join(" ")}`);
    process.exit(code);
  }
}

// Resolves to { code, out } with stdout and, when asked, stderr.
export async function capture(command, args, { env, cwd = root, both = false } = {}) {
  return await new Promise((resolve) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", both ? "pipe" : "ignore"], env: environment(env) });
    let out = "";
    child.stdout.on("data", (data) => (out += data));
    child.stderr?.on("data", (data) => (out += data));
    child.on("error", (error) => resolve({ code: 127, out: error.message }));
    child.on("close", (code) => resolve({ code: code ?? 1, out }));
  });
}

export function fail(text) {
  console.error(text);
  process.exit(1);
}

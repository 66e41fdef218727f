// What the tests of the gateway have in common: Sluice in front of a scripted server, callers, and what comes back.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { after, before, beforeEach } from "node:test";
import { message, refusalOf, request } from "../calls.mjs";
import { start } from "../workerd.mjs";
import * as scripted from "./scripted.mjs";

// The bucket fills so slowly that no machine is slow enough to see a token come back, and the limiter is waited for.
export const SLOW = { MCP_RATE_LIMIT: "0.001", MCP_LIMITER_TIMEOUT_MS: "60000" };

/** Sluice in front of a server that there is already. */
export const through = (upstream, vars = {}, options = {}) =>
  start({ ...options, vars: { ...SLOW, MCP_UPSTREAM: String(upstream.url), ...vars } });

/** A scripted server and Sluice in front of it, as { upstream, sluice }; both end with it. */
export async function pair(vars, options) {
  const upstream = await scripted.start();
  const sluice = await through(upstream, vars, options).catch(async (error) => {
    await upstream.close();
    throw error;
  });
  const close = async () => {
    await sluice.close();
    await upstream.close();
  };
  return { upstream, sluice, close, [Symbol.asyncDispose]: close };
}

/** The pair that the tests of a suite share. Before each test the server forgets what it saw and was told. */
export function gateway(vars) {
  const holder = {};
  before(async () => Object.assign(holder, await pair(vars)));
  beforeEach(() => {
    const { upstream } = holder;
    Object.assign(upstream, { tools: [scripted.ECHO], page: Infinity, list: {}, handler: undefined });
    upstream.forget();
  });
  after(() => holder.close?.());
  return holder;
}

let callers = 0;

/** A caller of its own: its address, and a credential, so that neither what was learnt for another nor a pause of another's is in its way. */
export function caller(headers = {}) {
  callers += 1;
  const number = `${callers >> 8}.${callers & 255}`;
  return { address: `198.18.${number}`, headers: { authorization: `Bearer caller-${number}`, ...headers } };
}

/** Calls a tool; echo unless said otherwise. */
export const call = (sluice, who, name, args, id) => sluice.mcp(message(name, args, id), who);

/** Sends a request with another method than tools/call. */
export const ask = (sluice, who, method, params, id) => sluice.mcp(request(method, params, id), who);

export const text = ({ result }) => result?.content?.[0]?.text;

/** The tokens that are left, as the header of an answer tells. */
export function left({ headers }) {
  const [, count] = headers.get("ratelimit")?.match(/^"tools-call";r=(\d+)/) ?? [];
  return count === undefined ? undefined : Number(count);
}

/** The call went through, and this came back. */
export function came(answer, expected) {
  assert.deepEqual([answer.status, answer.result?.isError, text(answer)], [200, false, expected], answer.text);
}

/** The call failed behind, and the model is told in words. */
export function failedBehind(answer) {
  const { status, result } = answer;
  assert.deepEqual([status, result?.isError, result?.content?.length], [200, true, 1], answer.text);
  assert.match(text(answer), /^The server behind/);
  assert.equal(refusalOf(answer), undefined);
  assert.equal("structuredContent" in result, false);
}

const PAUSE = /^The server behind asked for a pause\. Wait (\d+) (seconds?) before the next tool call\.$/;

/** The call was refused since the server behind asked for a pause. Resolves to the wait in ms. */
export function paused(answer, tool = "echo") {
  assert.deepEqual([answer.status, answer.result?.isError], [200, true], answer.text);
  const { retryAfterMs, ...rest } = refusalOf(answer);
  assert.deepEqual(rest, { reason: "upstream", allowance: "upstream", tool });
  const [, seconds, unit] = text(answer).match(PAUSE) ?? assert.fail(text(answer));
  assert.equal(Number(seconds), Math.max(1, Math.ceil(retryAfterMs / 1_000)));
  assert.equal(unit, seconds === "1" ? "second" : "seconds");
  return retryAfterMs;
}

/** Reads an event stream: `next()` resolves to the next event's text, or undefined at the end; `close()` leaves it. */
export function events(response) {
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let buffer = "";
  return {
    async next() {
      for (;;) {
        const end = buffer.indexOf("\n\n");
        if (end >= 0) {
          const event = buffer.slice(0, end);
          buffer = buffer.slice(end + 2);
          return event;
        }
        const { done, value } = await reader.read();
        if (done) return undefined;
        buffer += decoder.decode(value, { stream: true });
      }
    },
    close: () => reader.cancel().catch(() => {}),
  };
}

/** The messages in the text of an event stream, in order: only whole events count, and those of another type are none, as for any reader. */
export function messages(stream) {
  const all = stream.split(/\r?\n\r?\n/).slice(0, -1);
  const whole = all.filter((event) => event.split(/\r?\n/).every((line) => !line.startsWith("event:") || line.slice(6).trim() === "message"));
  const data = whole.map((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n"));
  return data.filter((one) => one !== "").map((one) => JSON.parse(one));
}

/** A promise and what settles it. */
export const gate = () => Promise.withResolvers();

/** Calls with parameters that `isHeld` picks wait behind, until the function is called that this gives back. */
export function hold(upstream, isHeld = () => true) {
  const { promise, resolve } = gate();
  upstream.respond(scripted.onCall(async ({ messages: [{ params }] }, _, next) => {
    if (isHeld(params)) await promise;
    next();
  }));
  return resolve;
}

/** The memory that the workerd processes of this one hold, in bytes; undefined where the system doesn't tell. */
export function memory() {
  let sum = 0;
  let names;
  try {
    names = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  } catch {
    return undefined;
  }
  for (const name of names) {
    try {
      const status = readFileSync(`/proc/${name}/status`, "utf8");
      const of = (field) => status.match(new RegExp(`^${field}:\\s+(\\S+)`, "m"))?.[1];
      if (of("PPid") === String(process.pid) && of("Name") === "workerd") sum += Number(of("VmRSS")) * 1024;
    } catch {
      // It has ended meanwhile.
    }
  }
  return sum === 0 ? undefined : sum;
}

/** Runs `work`, and resolves to [what it gave, by how many bytes the memory grew at most meanwhile]. */
export async function grown(work) {
  const before = memory();
  let most = before;
  const timer = setInterval(() => (most = Math.max(most, memory() ?? 0)), 25);
  try {
    const result = await work();
    return [result, before === undefined ? undefined : most - before];
  } finally {
    clearInterval(timer);
  }
}

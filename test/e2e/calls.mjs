// What the tests of the limiter have in common: messages, calls, and what became of them.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

export const request = (method, params, id = 1) => ({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });

/** A tools/call as a message; echo unless said otherwise. */
export const message = (name = "echo", args = name === "echo" ? { text: "hello" } : {}, id = 1) =>
  request("tools/call", { name, arguments: args }, id);

/** Calls a tool from an address. */
export const call = (sluice, address, name = "echo", args = undefined) => sluice.mcp(message(name, args), { address });

export const status = async (sluice, address) => (await call(sluice, address, "rate_limit_status")).result.structuredContent;

/** The refusal's fields, of a result or an error; undefined when it is none. */
export const refusalOf = ({ result, error }) =>
  result?._meta?.["sluice/refusal"] ?? (error?.code === -31004 ? error.data : undefined);

export const ran = ({ status, result }) => status === 200 && result !== undefined && result.isError === false;

export const countRan = (answers) => answers.filter(ran).length;

/** Every answer is one that ran or one that was refused for `reason`: nothing failed otherwise. */
export function allRanOrRefused(answers, reason = "rate") {
  for (const answer of answers) if (!ran(answer)) assert.equal(refusalOf(answer)?.reason, reason, answer.text);
}

/** `count` times `make(index)`, all at once. */
export const atOnce = (count, make) => Promise.all(Array.from({ length: count }, (_, index) => make(index)));

/** Calls echo until it is refused, and resolves to [how many ran, the refusal]. */
export async function drain(sluice, address, most = 200) {
  for (let count = 0; count < most; count += 1) {
    const answer = await call(sluice, address);
    if (!ran(answer)) return [count, answer];
  }
  throw new Error(`${most} calls ran`);
}

/** Waits for at least so many milliseconds by the wall clock: a timer may fire a little early. */
export async function pass(ms) {
  const end = Date.now() + ms;
  for (let left = ms; left > 0; left = end - Date.now()) await sleep(left);
}

/** Looks until `look` tells something truthy, and resolves to that. */
export async function until(look, what, wait = 15_000) {
  for (const end = Date.now() + wait; ; await sleep(25)) {
    const seen = await look();
    if (seen) return seen;
    if (Date.now() > end) throw new Error(`waited for ${wait} ms in vain: ${what}`);
  }
}

/** /metrics as { "name{labels}": number }. */
export async function metrics(sluice, init) {
  const text = await (await sluice.fetch("/metrics", init)).text();
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
  );
}

/** The object's name for a caller. */
export const nameOf = (address) => `address:${address}`;

// Load from autocannon: so many connections for so long, from many callers; and what it saw.
import autocannon from "autocannon";

/** Callers, unless a load has more. */
export const CALLERS = 200;

// While autocannon makes its connections it keeps answers waiting that are there, for some 50 ms. What comes in so many milliseconds isn't
// timed: in a round of a second that alone would be the slowest hundredth.
export const SETTLING_MS = 250;

// Of a block that nobody has (RFC 2544).
const address = (caller) => `198.18.${(caller >> 8) & 255}.${caller & 255}`;

const headersOf = (message, caller) => {
  const version = message.params?._meta?.["io.modelcontextprotocol/protocolVersion"];
  return {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "cf-connecting-ip": caller < 65_536 ? address(caller) : `2001:db8:${(caller >> 16).toString(16)}:${(caller & 65_535).toString(16)}::1`,
    "mcp-protocol-version": version ?? "2025-11-25",
    ...(version && { "mcp-method": message.method }),
  };
};

/** Sends `message` once, for one caller, and resolves to the answer's text. */
export async function ask(url, message, caller = 0) {
  const answer = await fetch(url, { method: "POST", headers: headersOf(message, caller), body: JSON.stringify(message) });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}: ${text.slice(0, 500)}`);
  return text;
}

/**
 * Sends `message` over `connections`, for `seconds` or until the `amount` is sent. Each connection takes the callers in turn, from another
 * one on. Resolves to { perSecond, p50, p99, sent }: rate and times, in milliseconds, are of what came after SETTLING_MS where there are
 * `seconds`, `sent` is all. Anything but an answer with status 200 is an error.
 */
export async function load(url, message, { connections, seconds, amount, callers = CALLERS }) {
  const body = JSON.stringify(message);
  const requests = Array.from({ length: callers }, (_, caller) => ({ method: "POST", body, headers: headersOf(message, caller) }));
  const times = [];
  let sent = 0;
  let others = 0;
  let next = 0;
  const run = autocannon({
    url: url.href,
    connections,
    ...(amount ? { amount } : { duration: seconds }),
    requests: requests.slice(0, 1),
    setupClient(client) {
      const first = Math.floor((next++ * callers) / connections);
      // Where the callers are many, each connection has its own.
      const own = callers > CALLERS ? requests.slice(first, first + Math.ceil(callers / connections)) : [...requests.slice(first), ...requests.slice(0, first)];
      client.setRequests(own);
    },
  });
  const began = performance.now();
  const settled = began + (seconds ? SETTLING_MS : 0);
  run.on("response", (_client, status, _bytes, ms) => {
    sent += 1;
    if (status !== 200) others += 1;
    else if (performance.now() > settled) times.push(ms);
  });
  const { errors, timeouts } = await run;
  const took = (performance.now() - settled) / 1_000;
  if (errors + timeouts + others > 0) throw new Error(`${errors} errors, ${timeouts} timeouts, ${others} other statuses at ${url}`);
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))];
  return { perSecond: times.length / took, p50: at(0.5), p99: at(0.99), sent };
}

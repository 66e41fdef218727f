// The results as a page.
import { SETTLING_MS } from "./load.mjs";
import { median } from "./measure.mjs";

const GOALS = [
  ["admitted, against peer", "admitted_peer", ">=", 3],
  ["its p99, against peer", "admitted_p99_peer", "<=", 0.5],
  ["refused by the object, against peer", "refused_peer", ">=", 4],
  ["refused and remembered, against peer", "remembered_peer", ">=", 6],
  ["refused and remembered, against parse", "remembered_parse", ">=", 0.5],
  ["tools/list, against peer", "list_peer", ">=", 6],
  ["admitted, against floor", "admitted_floor", ">=", 0.8],
];

const table = (head, lines) => [`| ${head.join(" | ")} |`, `|${head.map(() => "---").join("|")}|`, ...lines.map((line) => `| ${line.join(" | ")} |`)].join("\n");

const isReached = (value, sign, goal) => (sign === ">=" ? value >= goal : value <= goal);

/** The goal, and what was reached of it. */
export function goals({ ratios, rows_written_per_admitted, start_ms }) {
  const lines = GOALS.map(([what, key, sign, goal]) => [what, `${sign} ${goal} x`, `${ratios[key].toFixed(2)} x`, isReached(ratios[key], sign, goal) ? "reached" : "not reached"]);
  const more = start_ms.ours - start_ms.hello;
  lines.push(["rows written per admitted call", "1", rows_written_per_admitted.toFixed(2), rows_written_per_admitted <= 1 ? "reached" : "not reached"]);
  lines.push(["start to first answer, more than hello", "< 100 ms", `${more.toFixed(0)} ms`, more < 100 ? "reached" : "not reached"]);
  return table(["", "goal", "measured", ""], lines);
}

function speeds(measured) {
  const lines = [];
  for (const [row, byConnections] of Object.entries(measured)) {
    for (const [connections, byColumn] of Object.entries(byConnections)) {
      for (const [column, rounds] of Object.entries(byColumn)) {
        const of = (key, digits) => median(rounds.map((round) => round[key])).toFixed(digits);
        lines.push([row, connections, column, of("perSecond", 0), of("p50", 2), of("p99", 2), of("cpu", 0)]);
      }
    }
  }
  return table(["row", "connections", "column", "requests/s", "p50, ms", "p99, ms", "CPU, us a request"], lines);
}

function added(measured) {
  const lines = Object.entries(measured["through the gateway"]).map(([connections, { ours, behind }]) => {
    const more = (key) => `${median(ours.map((one, round) => one[key] - behind[round][key])).toFixed(2)} ms`;
    return [connections, more("p50"), more("p99")];
  });
  return table(["connections", "added p50", "added p99"], lines);
}

function storage(operations) {
  const lines = [];
  for (const [call, byColumn] of Object.entries(operations)) {
    for (const [column, { questions, rowsRead, rowsWritten, alarmsSet }] of Object.entries(byColumn)) {
      lines.push([call, column, ...[questions, rowsRead, rowsWritten, alarmsSet].map((count) => count.toFixed(2))]);
    }
  }
  return table(["call", "column", "questions", "rows read", "rows written", "alarms set"], lines);
}

/** The p99 of admitted calls against the peer's over other numbers of connections than that of the goal. */
function tails(measured) {
  const told = Object.entries(measured["tools/call, admitted"])
    .filter(([connections]) => connections !== "16")
    .map(([connections, { ours, peer }]) => `${median(ours.map(({ p99 }, round) => p99 / peer[round].p99)).toFixed(2)} x over ${connections}`);
  return told.length > 0 ? ` The p99 of an admitted call against the peer's is ${told.join(" and ")}.` : "";
}

/** bench/results.md. */
export function page(results, { rounds, seconds }) {
  const { measured, operations, start_ms, memory_mb, upload_bytes, machine, minutes } = results;
  const memory = memory_mb
    ? `Memory after one call of each of 100,000 callers: ${Object.entries(memory_mb)
        .map(([column, { before, after }]) => `${column} ${after.toFixed(0)} MB (${before.toFixed(0)} MB before)`)
        .join(", ")}.`
    : "";
  return `# What a call costs

\`npm run bench\`, ${minutes} minutes, on ${machine}. Each column is a Worker in a workerd of its own, with its objects stored in memory;
autocannon sends from 200 callers over loopback, and takes one of the cores. Each figure is the median of ${rounds} alternating rounds of ${seconds} s,
whose first ${SETTLING_MS} ms aren't timed. (CPU is of the whole round.)
Machines differ, and runs do: only what was measured side by side can be compared.

- **ours**: the shipped build. (Without the flood gate, whose binding plain workerd doesn't have.)
- **peer**: what is written today: Cloudflare's \`agents\` (\`createMcpHandler\`), the official SDK, and an object that stores its bucket and sets its alarm on each call.
- **floor**: the least that does the job: JavaScript that parses the body, asks an object by RPC, and writes one value. (It reads that each time; Sluice's
  objects keep a copy.)
- **hello**, **parse**: a constant; and a constant after the body was parsed.
- **behind**: the server that the gateway stands in front of, asked directly.

Requests are of revision 2025-11-25, but for \`server/discover\`. Sluice lists six tools, the peer one. The argument of 64 KB is longer than \`echo\` takes,
so it is parsed and refused. Where the object refuses, ours has two buckets, since one alone would be remembered.

## The goal

Ratios of requests a second (of p99 where it says so), medians of the rounds' ratios, over 16 connections. (The one against *parse* is of two medians,
since that was measured in another row.)${tails(measured)}

${goals(results)}

## Speed

${speeds(measured)}

## What the gateway adds

${added(measured)}

## What a call asks of its object's storage

What asks no object is left out. Once the object is there and something is owed all the time, as it is billed: an alarm that is set is a row written. What an alarm does when it goes
off is in docs/scale.md.

${storage(operations)}

## Size, start, memory

The upload is ${upload_bytes.raw} bytes, ${upload_bytes.gzipped} gzipped. From the start of workerd to the first answer of a call: ${Object.entries(start_ms)
    .map(([column, ms]) => `${column} ${ms.toFixed(0)} ms`)
    .join(", ")}. ${memory}
`;
}

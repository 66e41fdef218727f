// One run: every row, every column, in alternating rounds.
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../scripts/run.mjs";
import { columns, counted, gateway } from "./columns.mjs";
import { ask, CALLERS, load } from "./load.mjs";
import { rows } from "./rows.mjs";

export const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

const endpoint = ({ url }) => new URL("/mcp", url);
const CALL = rows.find(({ name }) => name === "tools/call, admitted").message;

// Clock ticks are hundredths of a second on Linux.
const cpuMicroseconds = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
};

const megabytes = (pid) => Number(readFileSync(`/proc/${pid}/status`, "utf8").match(/VmRSS:\s+(\d+) kB/)[1]) / 1024;

/** The server behind the gateway. */
async function behind() {
  const server = fork(join(root, "bench", "behind.mjs"));
  const [port] = await once(server, "message");
  return { url: new URL(`http://127.0.0.1:${port}`), pid: server.pid, close: () => server.kill() };
}

/** Starts what the rows need, once each: "ours admits", "peer refuses", ... */
async function start(started) {
  for (const { of } of rows) {
    for (const [column, kind] of Object.entries(of)) {
      const key = `${column} ${kind}`;
      if (started.has(key)) continue;
      if (column === "behind") started.set(key, await behind());
      else if (kind !== "gateway") started.set(key, await columns[column][kind]());
    }
  }
  started.set("ours gateway", await gateway(endpoint(started.get("behind admits")).href));
}

async function check({ name, message, right }, worker) {
  const answer = await ask(endpoint(worker), message, 1);
  if (!right.test(answer)) throw new Error(`${name}: a wrong answer from ${worker.url}: ${answer.slice(0, 500)}`);
}

/** What each row and column comes to: { row: { connections: { column: [one of each round] } } }. */
export async function measure({ connections, rounds, seconds, warm }, tell) {
  const started = new Map();
  try {
    await start(started);
    const measured = {};
    for (const row of rows) {
      tell(row.name);
      const asked = Object.entries(row.of).map(([column, kind]) => [column, started.get(`${column} ${kind}`)]);
      for (const [, worker] of asked) {
        await ask(endpoint(worker), row.message);
        // All objects are there, and what is hot is compiled.
        await load(endpoint(worker), row.message, { connections: 16, amount: warm });
        await check(row, worker);
      }
      const of = (measured[row.name] = {});
      for (const count of connections) {
        of[count] = Object.fromEntries(asked.map(([column]) => [column, []]));
        for (let round = 0; round < rounds; round += 1) {
          for (const [column, worker] of asked) {
            const before = cpuMicroseconds(worker.pid);
            const seen = await load(endpoint(worker), row.message, { connections: count, seconds });
            of[count][column].push({ ...seen, cpu: (cpuMicroseconds(worker.pid) - before) / seen.sent });
          }
        }
      }
      for (const [, worker] of asked) await check(row, worker);
    }
    return measured;
  } finally {
    for (const worker of started.values()) await worker.close();
  }
}

/** What the objects of each column ask of their storage for a call, by what becomes of it, once they are there. */
export async function operations() {
  const told = {};
  for (const [call, byColumn] of Object.entries(counted)) {
    told[call] = {};
    for (const [column, begin] of Object.entries(byColumn)) told[call][column] = await operationsOf(await begin());
  }
  return told;
}

async function operationsOf(worker) {
  try {
    const counts = async () => (await fetch(new URL("/counted", worker.url))).json();
    await load(endpoint(worker), CALL, { connections: 4, amount: CALLERS * 2 });
    const [before, amount] = [await counts(), CALLERS * 5];
    await load(endpoint(worker), CALL, { connections: 4, amount });
    const after = await counts();
    return Object.fromEntries(Object.entries(after).map(([name, value]) => [name, (value - before[name]) / amount]));
  } finally {
    await worker.close();
  }
}

/** Milliseconds from the start of the process to its first answer, in turns. */
export async function starts(times) {
  const told = { ours: [], hello: [], peer: [] };
  for (let time = 0; time < times; time += 1) {
    for (const column of Object.keys(told)) {
      const worker = await columns[column].admits();
      await ask(endpoint(worker), CALL);
      told[column].push(performance.now() - worker.spawned);
      await worker.close();
    }
  }
  return Object.fromEntries(Object.entries(told).map(([column, values]) => [column, median(values)]));
}

/** Resident memory in MB after one call of each of so many callers. */
export async function memory(callers) {
  const told = {};
  for (const column of ["ours", "peer"]) {
    const worker = await columns[column].admits();
    try {
      await ask(endpoint(worker), CALL);
      const before = megabytes(worker.pid);
      await load(endpoint(worker), CALL, { connections: 16, amount: callers, callers });
      told[column] = { before, after: megabytes(worker.pid) };
    } finally {
      await worker.close();
    }
  }
  return told;
}

// One process at a time: a file made exclusively, touched while its holder lives, and taken over when it doesn't.
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, utimesSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const BEAT_MS = 2_000;
const DEAD_AFTER_MS = 60_000;

export async function withLock(file, work) {
  await take(file);
  const beat = setInterval(() => {
    try {
      utimesSync(file, new Date(), new Date());
    } catch {
      // Somebody cleaned the folder; the work goes on.
    }
  }, BEAT_MS);
  const free = () => rmSync(file, { force: true });
  process.once("exit", free);
  try {
    return await work();
  } finally {
    clearInterval(beat);
    process.removeListener("exit", free);
    free();
  }
}

async function take(file) {
  mkdirSync(dirname(file), { recursive: true });
  const mine = `${process.pid} ${Math.random()}`;
  for (let told = false; ; await sleep(200)) {
    try {
      const handle = openSync(file, "wx");
      writeSync(handle, mine);
      closeSync(handle);
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
      if (isDead(file)) rmSync(file, { force: true });
      else if (!told) console.error(`Waiting for another run (${file}).`);
      told = true;
      continue;
    }
    // Two waiters may both have removed a dead lock, the second one that of the first: look again.
    await sleep(20);
    if (read(file) === mine) return;
  }
}

function isDead(file) {
  try {
    if (Date.now() - statSync(file).mtimeMs > DEAD_AFTER_MS) return true;
  } catch {
    return false; // Given back just now.
  }
  const holder = Number.parseInt(read(file), 10);
  if (!holder) return false; // Made, but not written yet.
  try {
    process.kill(holder, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

// What a call costs, next to what people would use instead: bench/results.md says what was measured, and how.
//
//   npm run bench               about 15 minutes; writes bench/results.md, bench/results.json, and the README's ratios
//   npm run bench -- --quick    under two minutes; shows that it runs, writes nothing
//
// The load tool and what is compared with are packages of bench/package.json, installed at the first run.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { capture, must, root } from "../scripts/run.mjs";

const quick = process.argv.includes("--quick");
const FULL = { connections: [1, 16, 64], rounds: 5, seconds: 1, warm: 3_000 };
const QUICK = { connections: [16], rounds: 1, seconds: 1, warm: 400 };
const MANY_CALLERS = 100_000;

// What results.json calls the ratios of the goal. Each is the median of the rounds' ratios over 16 connections.
const RATIOS = {
  admitted_peer: ["tools/call, admitted", "perSecond", "peer"],
  admitted_p99_peer: ["tools/call, admitted", "p99", "peer"],
  refused_peer: ["refused by the object", "perSecond", "peer"],
  remembered_peer: ["refused and remembered", "perSecond", "peer"],
  list_peer: ["tools/list", "perSecond", "peer"],
  admitted_floor: ["tools/call, admitted", "perSecond", "floor"],
};

const packages = join(root, "bench", "node_modules");
const lock = join(root, "bench", "package-lock.json");
const installed = join(packages, ".sluice-lock");
if (!existsSync(installed) || readFileSync(installed, "utf8") !== readFileSync(lock, "utf8")) {
  await must("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: join(root, "bench") });
  writeFileSync(installed, readFileSync(lock));
}
const { measure, median, memory, operations, starts } = await import("./measure.mjs");
const { goals, page } = await import("./page.mjs");

function ratiosOf(measured) {
  const of = (row, column) => measured[row][16][column];
  const ratio = (ours, others, key) => median(ours.map((one, round) => one[key] / others[round][key]));
  const ratios = {};
  for (const [name, [row, key, column]] of Object.entries(RATIOS)) ratios[name] = ratio(of(row, "ours"), of(row, column), key);
  // The Worker that parses was measured beside admitted calls.
  ratios.remembered_parse = median(of("refused and remembered", "ours").map(({ perSecond }) => perSecond)) / median(of("tools/call, admitted", "parse").map(({ perSecond }) => perSecond));
  return ratios;
}

const size = async () => {
  const { out } = await capture("node", ["scripts/size.mjs"]);
  const [, raw, gzipped] = out.match(/(\d+) bytes, gzipped (\d+)/);
  return { raw: Number(raw), gzipped: Number(gzipped) };
};

const begun = Date.now();
const measured = await measure(quick ? QUICK : FULL, (name) => console.error(`== ${name}`));
const storage = await operations();
const results = {
  ratios: ratiosOf(measured),
  rows_written_per_admitted: storage.admitted.ours.rowsWritten,
  operations: storage,
  start_ms: await starts(quick ? 1 : 7),
  memory_mb: quick ? undefined : await memory(MANY_CALLERS),
  upload_bytes: await size(),
  machine: `${cpus().length} x ${cpus()[0].model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}`,
  minutes: Math.round((Date.now() - begun) / 60_000),
  measured,
};
const text = page(results, quick ? QUICK : FULL);
console.log(text);
if (!quick) {
  writeFileSync(join(root, "bench", "results.md"), text);
  writeFileSync(join(root, "bench", "results.json"), `${JSON.stringify(results, null, 1)}\n`);
  const readme = join(root, "README.md");
  const shown = `<!-- bench:goal -->\n${goals(results)}\n<!-- /bench:goal -->`;
  writeFileSync(readme, readFileSync(readme, "utf8").replace(/<!-- bench:goal -->.*<!-- \/bench:goal -->/s, () => shown));
}

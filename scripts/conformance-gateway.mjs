// The official conformance suite against servers that aren't ours, directly and through Sluice: each check of each scenario must come to the
// same verdict. Those servers aren't meant to pass all of it; Sluice is meant to change nothing.
//
//   node scripts/conformance-gateway.mjs [SERVER-or-REVISION ...]
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fail, run } from "./run.mjs";

// Each server with the revision that it knows. `passes`: so many scenarios pass directly at least; fewer would mean that it wasn't reached.
const RUNS = [
  { server: "everything", revision: "2025-11-25", passes: 8 },
  { server: "modern", revision: "2026-07-28", passes: 5 },
];
// The suite is one caller that makes some hundred calls at once; it doesn't test the limiter.
const VARS = { MCP_RATE_LIMIT: "1000", MCP_RATE_LIMIT_BURST: "10000" };
const LEAST_SCENARIOS = 25;

/** Runs the suite, and resolves to { scenario: { check: verdicts } }, a verdict for each time that the check was made. */
async function verdicts(url, revision) {
  const results = mkdtempSync(join(tmpdir(), "conformance-"));
  try {
    // Its exit code says whether all passed, which isn't asked here.
    await run("conformance", ["server", "--url", url, "--requirements", revision, "-o", results], { stdio: "ignore" });
    const scenarios = {};
    for (const folder of readdirSync(results).sort()) {
      const name = folder.replace(/^server-/, "").replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, "");
      const file = join(results, folder, "checks.json");
      // A scenario that broke off leaves none.
      const checks = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [{ id: "broke-off", status: "FAILURE" }];
      const scenario = (scenarios[name] ??= {});
      for (const { id, status } of checks) (scenario[id] ??= []).push(status);
    }
    return scenarios;
  } finally {
    rmSync(results, { recursive: true, force: true });
  }
}

const passed = (checks) => Object.values(checks ?? {}).flat().every((status) => status === "SUCCESS" || status === "INFO" || status === "SKIPPED");
const word = (checks) => (checks === undefined ? "missing" : passed(checks) ? "pass" : "fail");
const told = (checks) => Object.entries(checks ?? {}).map(([id, statuses]) => `${id}=${statuses.join("+")}`).join(" ");

/** Prints the table, and resolves to how many scenarios differ. */
function compare(direct, through, passes) {
  const names = [...new Set([...Object.keys(direct), ...Object.keys(through)])].sort();
  if (names.length < LEAST_SCENARIOS) fail(`Only ${names.length} scenarios were run.`);
  const sum = (all) => Object.values(all).filter(passed).length;
  if (sum(direct) < passes) fail(`Directly only ${sum(direct)} scenarios pass: was the server reached?`);
  const width = Math.max(...names.map(({ length }) => length));
  console.log(`${"scenario".padEnd(width)}  direct   through`);
  let different = 0;
  for (const name of names) {
    const same = told(direct[name]) === told(through[name]);
    console.log(`${name.padEnd(width)}  ${word(direct[name]).padEnd(7)}  ${word(through[name]).padEnd(7)}${same ? "" : "  DIFFERENT"}`);
    if (same) continue;
    different += 1;
    console.log(`  direct:  ${told(direct[name])}\n  through: ${told(through[name])}`);
  }
  console.log(`== ${names.length} scenarios: ${sum(direct)} pass directly, ${sum(through)} through Sluice, ${different} differ`);
  return different;
}

// The suite tells localhost from other hosts by name.
const local = (url) => Object.assign(new URL("/mcp", url), { hostname: "localhost" }).href;

const chosen = process.argv.slice(2);
const runs = RUNS.filter(({ server, revision }) => chosen.length === 0 || chosen.includes(server) || chosen.includes(revision));
if (runs.length === 0) fail(`There is no such run: ${chosen.join(" ")}.`);
const { start } = await import("../test/e2e/workerd.mjs");
let different = 0;
for (const { server, revision, passes } of runs) {
  const upstream = await import(`../test/e2e/upstreams/${server}.mjs`);
  // A server of its own for each run: what a run leaves behind must not be in the next one's way.
  const at = async (look) => {
    await using behind = await upstream.start();
    return await look(behind.url);
  };
  console.log(`\n== Conformance ${revision} of ${server}, directly and through Sluice`);
  const direct = await at((url) => verdicts(local(url), revision));
  const through = await at(async (url) => {
    await using sluice = await start({ vars: { ...VARS, MCP_UPSTREAM: url.href } });
    return await verdicts(local(sluice.url), revision);
  });
  different += compare(direct, through, passes);
}
process.exit(different > 0 ? 1 : 0);

// The official conformance suite against the fixtures build, once per revision, each with its committed list of expected failures.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, run } from "./run.mjs";

const REVISIONS = ["2025-11-25", "2026-07-28"];
// The suite is one caller that makes some hundred calls at once; it doesn't test the limiter.
const VARS = { MCP_RATE_LIMIT: "1000", MCP_RATE_LIMIT_BURST: "10000" };

const chosen = process.argv.slice(2);
const { start } = await import("../test/e2e/harness.mjs");
const sluice = await start({ fixtures: true, vars: VARS });
// The suite tells localhost from other hosts by name.
const url = new URL("/mcp", sluice.url);
url.hostname = "localhost";
let failed = false;
try {
  for (const revision of chosen.length > 0 ? chosen : REVISIONS) {
    console.log(`\n== Conformance ${revision}`);
    const results = mkdtempSync(join(tmpdir(), "conformance-"));
    const baseline = join(root, "test", "conformance", `${revision}.yml`);
    const args = ["server", "--url", url.href, "--requirements", revision, "--expected-failures", baseline, "-o", results];
    const code = await run("conformance", args);
    rmSync(results, { recursive: true, force: true });
    console.log(`== Conformance ${revision}: ${code === 0 ? "as expected" : `FAILED (${code})`}`);
    failed ||= code !== 0;
  }
} finally {
  await sluice.close();
}
process.exit(failed ? 1 : 0);

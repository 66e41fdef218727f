// The official conformance suite against the fixtures build, once per revision, each with its committed list of expected failures.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { capture, root } from "./run.mjs";

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
    const { code, out } = await capture("conformance", args, { both: true });
    rmSync(results, { recursive: true, force: true });
    const text = out.replace(/\x1b\[\d+m/g, "");
    // The suite tells each step of each scenario; what it makes of them in the end is enough, unless something is wrong.
    const summary = text.indexOf("=== SUMMARY ===");
    console.log(code === 0 && summary >= 0 ? text.slice(summary) : text);
    const count = (pattern) => text.slice(Math.max(summary, 0)).match(pattern)?.length ?? 0;
    console.log(
      `== Conformance ${revision}: ${count(/^✓ /gm)} scenarios pass, ${count(/^✗ .*failed/gm)} have failures; `
        + `${count(/^ +~ /gm)} failures are expected, ${count(/^ +✗ /gm)} are not. ${code === 0 ? "As expected" : `FAILED (${code})`}`,
    );
    failed ||= code !== 0 || summary < 0;
  }
} finally {
  await sluice.close();
}
process.exit(failed ? 1 : 0);

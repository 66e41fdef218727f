// What an upload weighs: builds the shipped Worker, bundles it as a deploy would, and fails above the limit.
import { readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { fail, must, root } from "./run.mjs";

const LIMIT = 1_048_576;
const folder = join(root, "target", "upload");

// Further arguments go to wrangler.
export async function dryRun(args = []) {
  rmSync(folder, { recursive: true, force: true });
  await must("wrangler", ["deploy", "--dry-run", "--outdir", folder, ...args]);
  let plain = 0;
  let gzipped = 0;
  for (const name of readdirSync(folder)) {
    if (name.endsWith(".map") || name === "README.md") continue; // Not uploaded.
    const bytes = readFileSync(join(folder, name));
    plain += bytes.length;
    gzipped += gzipSync(bytes, { level: 9 }).length;
  }
  console.log(`Upload: ${plain} bytes, gzipped ${gzipped} of at most ${LIMIT}.`);
  if (gzipped > LIMIT) fail(`The upload is ${gzipped - LIMIT} bytes too large.`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await dryRun();

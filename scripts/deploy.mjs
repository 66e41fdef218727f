// wrangler deploy, with the size checked first. `--dry-run` needs no account and no network.
import { must } from "./run.mjs";
import { dryRun } from "./size.mjs";

const args = process.argv.slice(2);
const rest = args.filter((arg) => arg !== "--dry-run");
await dryRun(rest);
if (rest.length === args.length) await must("wrangler", ["deploy", ...rest]);

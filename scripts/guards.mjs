// Takes one guard after the other out of a copy of the tree, and demands that the named end-to-end tests go red.
//
//   npm run guards [-- WORD ...]    only the patches whose name has one of these words
//
// A patch is a unified diff in test/guards/, with lines at its head that say what it takes away and who must notice:
//   # guard: the body's size limit
//   # red: test/e2e/size.test.mjs [test/e2e/...]
//   # test: a body that is too large     only tests of this name are run, where the whole file would take long (a regular expression)
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { capture, fail, root } from "./run.mjs";

const FOLDER = join(root, "test", "guards");
// The copy has links to these, or builds its own.
const LINKED = ["node_modules", ".tools"];
// Without its guard something may never answer. No test takes so long on a slow machine, in milliseconds.
const LONGEST_MS = 240_000;
// One target folder for all copies, since only a file or two differ from one to the next.
const TARGET = join(root, "target", "guards");

function head(text, word) {
  const line = text.match(new RegExp(`^# ${word}: *(.+)$`, "m"));
  return line?.[1].trim();
}

function patches(words) {
  const names = existsSync(FOLDER) ? readdirSync(FOLDER).filter((name) => name.endsWith(".patch")).sort() : [];
  return names
    .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
    .map((name) => {
      const text = readFileSync(join(FOLDER, name), "utf8");
      const guard = head(text, "guard");
      const red = head(text, "red")?.split(/\s+/);
      if (!guard || !red) fail(`test/guards/${name}: its head must have "# guard: ..." and "# red: test/e2e/..."`);
      for (const file of red) if (!existsSync(join(root, file))) fail(`test/guards/${name}: there is no ${file}`);
      return { name, guard, red, only: head(text, "test") };
    });
}

// What git knows and what is new, as it is on disk: uncommitted work is tried too.
function copyTo(copy) {
  const listed = spawnSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root });
  if (listed.status !== 0) fail("git ls-files fails: git is needed, and a repository.");
  for (const file of listed.stdout.toString().split("\0")) {
    if (file === "" || !existsSync(join(root, file))) continue;
    cpSync(join(root, file), join(copy, file), { preserveTimestamps: true });
  }
  for (const name of LINKED) symlinkSync(join(root, name), join(copy, name));
}

const named = (only) => (only ? [`--test-name-pattern=${only}`] : []);

async function tryOne({ name, red, only }) {
  // The same path each time: cargo's fingerprints hold it.
  const copy = join(TARGET, "copy");
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(copy, { recursive: true });
  copyTo(copy);
  const here = { cwd: copy, env: { CARGO_TARGET_DIR: join(TARGET, "cargo") }, both: true };
  const patch = join(FOLDER, name);
  // --unsafe-paths and the ceiling: the copy lies inside this repository, and isn't one itself.
  const applied = await capture("git", ["apply", "--whitespace=nowarn", patch], {
    ...here,
    env: { ...here.env, GIT_DIR: join(copy, ".no-git"), GIT_CEILING_DIRECTORIES: TARGET },
  });
  if (applied.code !== 0) return { verdict: "doesn't apply", detail: applied.out };
  // The tests build what else they need.
  const built = await capture("node", ["scripts/build.mjs", "shipped"], here);
  if (built.code !== 0) return { verdict: "doesn't build", detail: built.out };
  for (const file of red) {
    const tested = await capture("node", ["--test", `--test-timeout=${LONGEST_MS}`, "--test-reporter=tap", ...named(only), file], here);
    if (tested.code === 0) return { verdict: "UNNOTICED", detail: `${file} still passes` };
    // A file that can't even start proves nothing.
    if (!/^\s*not ok \d+ - (?!.*\.mjs$)/m.test(tested.out)) return { verdict: "no test ran", detail: tested.out.slice(-2_000) };
  }
  return { verdict: "noticed" };
}

const chosen = patches(process.argv.slice(2));
if (chosen.length === 0) fail("No patch in test/guards matches.");
// The tests must be green with every guard in place, or red says nothing.
const all = new Map(chosen.flatMap(({ red, only }) => red.map((file) => [JSON.stringify([file, only]), [file, only]])));
console.log(`Without a patch: ${all.size} test files, or parts of them`);
for (const [file, only] of all.values()) {
  const { code, out } = await capture("node", ["--test", "--test-reporter=tap", ...named(only), file], { both: true });
  if (code !== 0) fail(`${file} is red with every guard in place:\n${out}`);
  // A name that no test has would be green with every guard gone.
  if (!/^\s*ok \d+ - (?!.*\.mjs$)(?!.* # SKIP)/m.test(out)) fail(`No test of ${file} has the name ${only}.`);
}

let bad = 0;
for (const patch of chosen) {
  const started = Date.now();
  const { verdict, detail } = await tryOne(patch);
  const seconds = Math.round((Date.now() - started) / 1000);
  console.log(`${verdict.padEnd(13)} ${patch.name.padEnd(32)} ${patch.guard} (${seconds} s)`);
  if (detail) console.log(detail.replace(/^/gm, "    "));
  if (verdict !== "noticed") bad += 1;
}
rmSync(join(TARGET, "copy"), { recursive: true, force: true });
console.log(`\n${chosen.length - bad} of ${chosen.length} guards are missed by the tests when they are gone.`);
process.exit(bad > 0 ? 1 : 0);

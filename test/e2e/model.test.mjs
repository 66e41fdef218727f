// Many callers at once, on tools with costs, quotas and slots, at random: the objects admit what a plain model admits that is told the
// same in the order in which each object saw it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { atOnce, message, nameOf, ran, refusalOf, until } from "./calls.mjs";
import { start } from "./harness.mjs";

const CALLERS = 200;
const CALLS = 12;

const BURST = 14;
const QUOTA = 7;
const IN_FLIGHT = 3;
const TOOLS = {
  echo: { cost: 1 },
  list_decisions: { cost: 3, quota: "3/day" },
  test_slow: { cost: 2, max_in_flight: 2, burst: 4 },
};

/** The limits of one caller, kept as plainly as can be. So little drains within the test that whole tokens tell it all. */
class Plain {
  owed = 0;
  slow = 0;
  counted = { "": 0, list_decisions: 0 };
  leases = new Map();

  running(tool) {
    return [...this.leases.values()].filter((calls) => !tool || calls === tool).length;
  }

  admits(tool) {
    const { cost } = TOOLS[tool];
    if (this.owed + cost > BURST || this.counted[""] + 1 > QUOTA || this.running() + 1 > IN_FLIGHT) return false;
    if (tool === "list_decisions") return this.counted.list_decisions + 1 <= 3;
    return tool !== "test_slow" || (this.running("test_slow") + 1 <= 2 && this.slow + cost <= 4);
  }

  take(tool, id) {
    this.owed += TOOLS[tool].cost;
    if (tool === "test_slow") this.slow += TOOLS[tool].cost;
    this.counted[""] += 1;
    if (tool === "list_decisions") this.counted.list_decisions += 1;
    this.leases.set(id, tool);
  }
}

test(`of ${CALLERS} callers at once each has admitted what a plain model of its limits admits`, async (t) => {
  await using sluice = await start({
    fixtures: true,
    main: "test/e2e/faults/recorded.mjs",
    config: { ratelimits: [] },
    vars: {
      MCP_RATE_LIMIT: "0.00001",
      MCP_RATE_LIMIT_BURST: `${BURST}`,
      MCP_QUOTA: `${QUOTA}/day`,
      MCP_MAX_IN_FLIGHT: `${IN_FLIGHT}`,
      MCP_LIMITER_TIMEOUT_MS: "60000",
      MCP_TOOLS: TOOLS,
    },
  });
  const address = (caller) => `10.0.${Math.floor(caller / 100)}.${caller % 100}`;
  const call = (caller, tool) => {
    const args = tool === "test_slow" ? { ms: Math.floor(Math.random() * 150) } : undefined;
    return sluice.mcp(message(tool, args), { address: address(caller) });
  };
  // The first call of each sets the alarm, which is for midnight then.
  await atOnce(CALLERS, (caller) => call(caller, "echo"));
  const names = Object.keys(TOOLS);
  const answers = await atOnce(CALLERS * CALLS, (index) => call(index % CALLERS, names[Math.floor(Math.random() * names.length)]));
  for (const answer of answers) if (!ran(answer)) assert.ok(refusalOf(answer), answer.text);

  const seen = { admitted: 0, refused: {}, remembered: 0 };
  for (let caller = 0; caller < CALLERS; caller += 1) {
    const recorded = async () => (await sluice.fetch(`/recorded?name=${nameOf(address(caller))}`, { method: "POST" })).json();
    const done = await until(async () => {
      const done = await recorded();
      const [taken, back] = [done.filter(([, answer]) => answer.admitted), done.filter(([told]) => told.release !== undefined)];
      return taken.length === back.length && done;
    }, "all slots came back");
    const plain = new Plain();
    for (const [told, answer] of done) {
      if (told.release !== undefined) {
        assert.ok(plain.leases.delete(told.release), "a slot that was taken");
        continue;
      }
      const tool = Object.keys(told.lease.calls).find((name) => name !== "");
      assert.equal(answer.admitted, plain.admits(tool), `${tool}: ${JSON.stringify([told, answer, plain])}`);
      if (answer.admitted) plain.take(tool, told.id);
      if (answer.admitted) seen.admitted += 1;
      else seen.refused[answer.by?.kind ?? "caller"] = (seen.refused[answer.by?.kind ?? "caller"] ?? 0) + 1;
    }
    seen.remembered += CALLS + 1 - done.filter(([told]) => told.release === undefined).length;
  }
  t.diagnostic(JSON.stringify(seen));
  assert.equal(seen.admitted, CALLERS + answers.filter(ran).length, "what was admitted ran");
  for (const kind of ["bucket", "quota", "slots"]) assert.ok(seen.refused[kind] > 0, `${kind} refused something`);
});

// The least that does the job on this platform: the body is parsed, one object for each caller is asked by RPC, and writes one value for
// each call that it admits. No protocol, no validation, no deadline, no headers.
import { DurableObject } from "cloudflare:workers";
import { storage } from "#storage";

const answer = (id, result) => new Response(JSON.stringify({ jsonrpc: "2.0", id, result }), { headers: { "content-type": "application/json" } });

export class Bucket extends DurableObject {
  constructor(context, env) {
    super(context, env);
    this.storage = storage(context);
    this.env = env;
  }

  take() {
    const now = Date.now();
    const { debt, at, alarm } = this.storage.kv.get("bucket") ?? { debt: 0, at: now, alarm: 0 };
    const owed = Math.max(0, debt - ((now - at) / 1_000) * this.env.RATE);
    if (owed + 1 > this.env.BURST) return ((owed + 1 - this.env.BURST) / this.env.RATE) * 1_000;
    const bucket = { debt: owed + 1, at: now, alarm };
    if (alarm <= now) {
      bucket.alarm = now + 60_000;
      this.storage.setAlarm(bucket.alarm);
    }
    this.storage.kv.put("bucket", bucket);
    return 0;
  }

  async alarm() {
    await this.storage.deleteAll();
  }
}

export default {
  async fetch(request, env) {
    const { id, params } = await request.json();
    const wait = await env.BUCKET.getByName(request.headers.get("cf-connecting-ip")).take();
    if (wait > 0) return answer(id, { isError: true, content: [{ type: "text", text: `Wait ${Math.ceil(wait / 1_000)} seconds.` }] });
    return answer(id, { content: [{ type: "text", text: params.arguments.text }] });
  },
};

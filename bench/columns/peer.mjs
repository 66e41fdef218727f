// What people would write today: Cloudflare's `agents` with the official SDK, and a limiter of their own in an object for each caller,
// which stores the bucket and sets its alarm on each call, as the usual examples do.
import { McpServer } from "@modelcontextprotocol/server";
import { createMcpHandler } from "agents/mcp/server";
import { DurableObject } from "cloudflare:workers";
import { z } from "zod";
import { storage } from "#storage";

export class Bucket extends DurableObject {
  constructor(context, env) {
    super(context, env);
    this.storage = storage(context);
    this.env = env;
  }

  async take() {
    const now = Date.now();
    const { tokens, at } = (await this.storage.get("bucket")) ?? { tokens: this.env.BURST, at: now };
    const filled = Math.min(this.env.BURST, tokens + ((now - at) / 1_000) * this.env.RATE);
    if (filled < 1) return { allowed: false, retryAfter: Math.ceil((1 - filled) / this.env.RATE) };
    await this.storage.put("bucket", { tokens: filled - 1, at: now });
    await this.storage.setAlarm(now + ((this.env.BURST - filled + 1) / this.env.RATE) * 1_000);
    return { allowed: true };
  }

  async alarm() {
    await this.storage.deleteAll();
  }
}

const text = (value) => ({ content: [{ type: "text", text: value }] });

function createServer(env, address) {
  const server = new McpServer({ name: "peer", version: "1.0.0" });
  const echo = { description: "Returns the text that it is given.", inputSchema: z.strictObject({ text: z.string().min(1).max(LONGEST) }) };
  server.registerTool("echo", echo, async (args) => {
    const { allowed, retryAfter } = await env.BUCKET.getByName(address).take();
    if (!allowed) return { isError: true, ...text(`Rate limit reached. Wait ${retryAfter} seconds.`) };
    return text(args.text);
  });
  return server;
}

// As the echo of Sluice takes it.
const LONGEST = 4_000;

export default {
  fetch(request, env, context) {
    const address = request.headers.get("cf-connecting-ip");
    return createMcpHandler(() => createServer(env, address))(request, env, context);
  },
};

// One proxy and the official SDK's client of it, which notes what a model would have
// written and read.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout as sleep } from "node:timers/promises";

// Agent calls tools. Its turns are what a model writes and reads for each call.
export class Agent {
  turns = []; // { wrote, read }: text
  asked = []; // messages of elicitations
  progress = 0;

  // connect starts the proxy and waits until all servers are there. answer is what
  // the user says when asked; without it the client cannot ask.
  static async connect(command, args, { root, answer, without = false }) {
    const agent = new Agent();
    agent.client = new Client({ name: "plan", version: "1" }, { capabilities: { roots: {}, ...(answer && { elicitation: {} }) } });
    agent.client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: `file://${root}` }] }));
    if (answer) {
      agent.client.setRequestHandler(ElicitRequestSchema, (request) => {
        agent.asked.push(request.params.message);
        return { action: answer, ...(answer === "accept" && { content: {} }) };
      });
    }
    await agent.client.connect(new StdioClientTransport({ command, args, stderr: "inherit", env: process.env }));
    const wanted = ["files__write_file", "git__git_commit", "db__execute_sql", ...(without ? [] : ["execute_tool_plan"])];
    for (let i = 0; i < 100; i++) {
      agent.tools = (await agent.client.listTools()).tools;
      if (wanted.every((name) => agent.tool(name))) return agent;
      await sleep(100);
    }
    await agent.client.close();
    throw new Error(`tools/list: want ${wanted}, have ${agent.tools.map((t) => t.name)}`);
  }

  tool(name) {
    return this.tools.find((t) => t.name === name);
  }

  // warm makes calls that are no part of the work, so that no server's first one is.
  async warm(steps) {
    for (const { tool, arguments: args } of steps) await this.client.callTool({ name: tool, arguments: args });
  }

  // call makes one call. The text of its answer is what most clients show their model.
  async call(name, args) {
    const result = await this.client.callTool({ name, arguments: args }, undefined, { onprogress: () => this.progress++ });
    const texts = result.content.filter((c) => c.type === "text").map((c) => c.text);
    this.turns.push({ wrote: JSON.stringify({ name, arguments: args }), read: texts.join("\n") });
    return { text: texts.join("\n"), value: value(result, texts), failed: result.isError === true, structured: result.structuredContent };
  }

  // upstreamCalls is how many calls the proxy made, by its own account.
  async upstreamCalls() {
    const { contents } = await this.client.readResource({ uri: "mcpschedd://stats" });
    const { totals } = JSON.parse(contents[0].text);
    return Math.round(totals.upstream_amplification * totals.calls);
  }
}

// value is what a plan makes of a tool's result: what is structured, else the text,
// as JSON if it is some.
function value(result, texts) {
  if (result.structuredContent !== undefined) return result.structuredContent;
  if (texts.length === 1) {
    try {
      return JSON.parse(texts[0]);
    } catch {}
  }
  return texts.join("\n");
}

// A scripted agent that does the same work twice, with every tool listed and with tools that
// it has to search for, and must get the same answers:
//
//   node searched.mjs PROJECT LISTED.toml SEARCHED.toml COMMAND
//
// COMMAND is mcpschedd; the two configurations differ in [server].tools alone. PROJECT is the
// folder that the servers work on.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { equal, matches, run } from "./checks.mjs";

const [project, listed, searched, command] = process.argv.slice(2);

// What the agent looks for, the tool that does it, and its arguments.
const work = [
  ["read a text file", "filesystem__read_text_file", { path: `${project}/hay.txt` }],
  ["list the files of a folder", "filesystem__list_directory", { path: project }],
  ["write a file", "filesystem__write_file", { path: `${project}/made.txt`, content: "made\n" }],
  ["move or rename a file", "filesystem__move_file", { source: `${project}/made.txt`, destination: `${project}/moved.txt` }],
  ["echo a message back", "everything__echo", { message: "hello" }],
  ["sum of two numbers", "everything__get-sum", { a: 2, b: 40 }],
  ["search the knowledge graph for nodes", "memory__search_nodes", { query: "Ada" }],
  ["read the whole knowledge graph", "memory__read_graph", {}],
  ["think through a problem step by step", "thinking__sequentialthinking", { thought: "t", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }],
  ["search for a pattern with ripgrep", "ripgrep__search", { pattern: "needle", path: project }],
  ["show the git log", "git__git_log", { repo_path: project }],
  ["status of the working tree in git", "git__git_status", { repo_path: project }],
  ["search for a Go symbol", "gopls__go_search", { query: "answer" }],
  ["overview of the Go workspace", "gopls__go_workspace", {}],
];

async function connected(config, answer) {
  const client = new Client({ name: "agent", version: "1" }, { capabilities: { elicitation: { form: {} } } });
  let asked = 0;
  client.setRequestHandler(ElicitRequestSchema, () => {
    asked++;
    return { action: answer, content: {} };
  });
  await client.connect(new StdioClientTransport({
    command, args: ["serve", "--config", config], stderr: "ignore", env: process.env, cwd: project,
  }));
  return { client, tools: (await client.listTools()).tools, asked: () => asked };
}

const call = (to, name, args) => to.client.callTool({ name, arguments: args });
const content = (result) => JSON.stringify([result.content, result.structuredContent, result.isError ?? false]);

await run("searched", async () => {
  const all = await connected(listed, "decline");
  const agent = await connected(searched, "accept");
  const cautious = await connected(searched, "decline");
  equal("the list", agent.tools.map((t) => t.name), ["find_tools", "call_read_tool", "call_tool"]);
  const size = (tools) => JSON.stringify(tools).length;
  matches("the list is shorter", `${(100 * size(agent.tools) / size(all.tools)).toFixed(1)} %`, /^[0-4]\./);

  const names = new Set(all.tools.map((t) => t.name));
  let writes = 0;
  for (const [query, name, args] of work.filter(([, name]) => names.has(name))) {
    const found = JSON.parse((await call(agent, "find_tools", { query })).content[0].text).tools;
    const tool = found.find((t) => t.name === name);
    equal(`${query}: found among five`, tool !== undefined, true);
    if (!tool) continue;
    const [whole] = JSON.parse((await call(agent, "find_tools", { query: name, limit: 1 })).content[0].text).tools;
    equal(`${query}: its schema`, whole.inputSchema, all.tools.find((t) => t.name === name).inputSchema);
    const before = agent.asked();
    if (tool.call_with === "call_tool") {
      const refused = await call(cautious, "call_tool", { name, arguments: args });
      matches(`${query}: not called where the user declines`, refused.content[0].text, /declined/);
      writes++;
    }
    const direct = name.endsWith("move_file") ? null : await call(all, name, args);
    const through = await call(agent, tool.call_with, { name, arguments: args });
    if (direct) equal(`${query}: ${tool.call_with} answers as ${name} does`, content(through), content(direct));
    equal(`${query}: the user was asked`, agent.asked() - before, tool.call_with === "call_tool" ? 1 : 0);
    if (tool.call_with === "call_tool") {
      const barred = await call(agent, "call_read_tool", { name, arguments: args });
      matches(`${query}: not reached where only reads are`, barred.content[0].text, /not called/);
    }
  }
  matches("some of them write", String(writes), /^[1-9]/);
  equal("the list is what it was", (await agent.client.listTools()).tools, agent.tools);
  for (const c of [all, agent, cautious]) await c.client.close();
}, 120);

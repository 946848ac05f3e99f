// The TypeScript SDK of the handshake era as a client of
// @modelcontextprotocol/server-everything:
//
//   node sdk-v1.mjs LABEL PREFIX stdio COMMAND ARGUMENT…
//   node sdk-v1.mjs LABEL PREFIX http|sse URL        with TOKEN in the environment
//
// PREFIX stands before the names of the server's tools and prompts.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema,
  LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { equal, matches, rejects, run } from "./checks.mjs";

const [label, prefix, kind, target, ...args] = process.argv.slice(2);

function transport() {
  const requestInit = { headers: { Authorization: `Bearer ${process.env.TOKEN}` } };
  switch (kind) {
    case "stdio": return new StdioClientTransport({ command: target, args, stderr: "ignore", env: process.env });
    case "http": return new StreamableHTTPClientTransport(new URL(target), { requestInit });
    case "sse": return new SSEClientTransport(new URL(target), { requestInit });
  }
  throw new Error(`want stdio, http or sse, have ${kind}`);
}

const statsURI = "mcpschedd://stats"; // the proxy's own

await run(label, async () => {
  const client = new Client({ name: "sdk-v1", version: "1" }, {
    capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } },
  });
  const asked = [];
  client.setRequestHandler(CreateMessageRequestSchema, (request) => {
    asked.push("sampling");
    return { role: "assistant", model: "none", content: { type: "text", text: `heard: ${request.params.messages[0].content.text}` } };
  });
  client.setRequestHandler(ElicitRequestSchema, (request) => {
    asked.push(`elicitation of ${Object.keys(request.params.requestedSchema.properties).length > 5 ? "many fields" : "few fields"}`);
    return { action: "accept", content: { name: "Ada", check: true } };
  });
  client.setRequestHandler(ListRootsRequestSchema, () => {
    asked.push("roots");
    return { roots: [{ uri: "file:///srv/project", name: "project" }] };
  });
  let statsAreNews = () => {};
  const updated = new Promise((resolve) => {
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, (n) => {
      if (n.params.uri === statsURI) statsAreNews(n.params.uri);
      else resolve(n.params.uri);
    });
  });
  const logged = new Promise((resolve) => {
    client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => resolve(n.params.level));
  });
  await client.connect(transport());
  const call = async (name, parameters = {}, options) => {
    const result = await client.callTool({ name: prefix + name, arguments: parameters }, undefined, options);
    return result.content.map((c) => c.text ?? c.type).join("\n");
  };

  // Tools that depend on what the client can do are there once the handshake is
  // over.
  let names = [];
  for (let i = 0; i < 50 && !names.includes(`${prefix}trigger-sampling-request`); i++) {
    names = (await client.listTools()).tools.map((t) => t.name);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  equal("tools/list", ["echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"]
    .filter((n) => !names.includes(prefix + n)), []);
  equal("tools/call", await call("echo", { message: "grüezi" }), "Echo: grüezi");
  equal("structuredContent", Object.keys((await client.callTool({
    name: `${prefix}get-structured-content`, arguments: { location: "Chicago" },
  })).structuredContent), ["temperature", "conditions", "humidity"]);
  matches("images", await call("get-tiny-image"), /\nimage\n/);

  const progress = [];
  matches("a long call", await call("trigger-long-running-operation", { duration: 1, steps: 4 },
    { onprogress: (p) => progress.push(`${p.progress}/${p.total}`) }), /completed/);
  // The SDK forgets the call's handler when it reads the answer, and may then not
  // have handed over the progress just before it.
  equal("progress", progress.slice(0, 3), ["1/4", "2/4", "3/4"]);
  matches("sampling", await call("trigger-sampling-request", { prompt: "ping", maxTokens: 5 }), /heard: .*ping/);
  matches("elicitation", await call("trigger-elicitation-request"), /Name: Ada/);
  matches("roots", await call("get-roots-list"), /file:\/\/\/srv\/project/);
  equal("what the client was asked", [...new Set(asked)].sort(), ["elicitation of many fields", "roots", "sampling"]);

  const cancel = new AbortController();
  const cancelled = call("trigger-long-running-operation", { duration: 60, steps: 60 },
    { signal: cancel.signal, onprogress: () => cancel.abort("enough") });
  await cancelled.then(() => equal("cancellation", "a result", "an error"), (err) => matches("cancellation", String(err), /enough/));
  equal("a call after a cancelled one", await call("get-sum", { a: 2, b: 3 }), "The sum of 2 and 3 is 5.");
  equal("several calls at once", await Promise.all(Array.from({ length: 50 }, (_, i) => call("echo", { message: `${i}` }))),
    Array.from({ length: 50 }, (_, i) => `Echo: ${i}`));

  const prompts = (await client.listPrompts()).prompts.map((p) => p.name);
  equal("prompts/list", prompts.includes(`${prefix}args-prompt`), true);
  const prompt = await client.getPrompt({ name: `${prefix}args-prompt`, arguments: { city: "Ulm" } });
  matches("prompts/get", prompt.messages[0].content.text, /Ulm/);
  const completion = await client.complete({
    ref: { type: "ref/prompt", name: `${prefix}completable-prompt` }, argument: { name: "department", value: "E" },
  });
  equal("completion/complete", completion.completion.values, ["Engineering"]);

  const { resources } = await client.listResources();
  const uri = resources.find((r) => r.uri.endsWith("features.md"))?.uri;
  matches("resources/read", (await client.readResource({ uri })).contents[0].text, /^# Everything Server/);
  const { resourceTemplates } = await client.listResourceTemplates();
  equal("resources/templates/list", resourceTemplates.length >= 2, true);
  matches("a resource of a template", (await client.readResource({ uri: "demo://resource/dynamic/text/7" })).contents[0].text, /7/);
  await rejects("a resource nobody has", client.readResource({ uri: "demo://nowhere" }), -32602);
  await client.subscribeResource({ uri });
  await call("toggle-subscriber-updates");
  equal("resources/updated", await updated, uri);
  await client.unsubscribeResource({ uri });

  if (prefix) { // where one upstream is seen alone, the proxy does not tell of itself
    const stats = async () => JSON.parse((await client.readResource({ uri: statsURI })).contents[0].text).totals;
    const before = await stats();
    const told = new Promise((resolve) => { statsAreNews = resolve; });
    await client.subscribeResource({ uri: statsURI });
    await call("echo", { message: "counted" });
    equal("the stats have changed", await told, statsURI);
    const after = await stats();
    equal("the stats count calls", after.calls - before.calls, 1);
    equal("each call is answered in one way", after.served_stored + after.joined + after.fetched + after.failed, after.calls);
    matches("stats/summary", (await client.readResource({ uri: `${statsURI}/summary` })).contents[0].text, /everything|calls/);
    await client.unsubscribeResource({ uri: statsURI });
  }

  await client.setLoggingLevel("debug");
  await call("toggle-simulated-logging");
  matches("logging", await logged, /./);
  await client.ping();
  await client.close();
});

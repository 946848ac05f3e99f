// The TypeScript SDK of the stateless era (2026-07-28) as a client of
// @modelcontextprotocol/server-everything, which speaks the handshake era: what
// that server asks of its client arrives as results that ask for input.
//
//   node sdk-v2.mjs LABEL PREFIX MODE stdio COMMAND ARGUMENT…
//   node sdk-v2.mjs LABEL PREFIX MODE http URL      with TOKEN in the environment
//
// MODE is auto, legacy or a revision to insist on.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { equal, matches, rejects, run } from "./checks.mjs";

const [label, prefix, mode, kind, target, ...args] = process.argv.slice(2);

await run(label, async () => {
  const client = new Client({ name: "sdk-v2", version: "1" }, {
    capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} },
    versionNegotiation: { mode: mode === "auto" || mode === "legacy" ? mode : { pin: mode } },
  });
  const asked = [];
  client.setRequestHandler("sampling/createMessage", (request) => {
    asked.push("sampling");
    return { role: "assistant", model: "none", content: { type: "text", text: `heard: ${request.params.messages[0].content.text}` } };
  });
  client.setRequestHandler("elicitation/create", () => {
    asked.push("elicitation");
    return { action: "accept", content: { name: "Ada", check: true } };
  });
  client.setRequestHandler("roots/list", () => {
    asked.push("roots");
    return { roots: [{ uri: "file:///srv/project", name: "project" }] };
  });
  await client.connect(kind === "stdio"
    ? new StdioClientTransport({ command: target, args, stderr: "ignore", env: process.env })
    : new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } } }));
  equal("revision", client.getNegotiatedProtocolVersion(), mode === "legacy" ? "2025-11-25" : "2026-07-28");
  const call = async (name, parameters = {}, options) => {
    const result = await client.callTool({ name: prefix + name, arguments: parameters }, options);
    return result.content.map((c) => c.text ?? c.type).join("\n");
  };

  const tools = (await client.listTools()).tools.map((t) => t.name);
  equal("tools/list", tools.includes(`${prefix}echo`), true);
  equal("tools/call", await call("echo", { message: "grüezi" }), "Echo: grüezi");
  // The server asks for the roots once, when it likes; progress that it tells while a stateless client
  // is about to answer has no request to be told with. So it has the roots before the long call.
  matches("roots", await call("get-roots-list"), /file:\/\/\/srv\/project/);
  const progress = [];
  matches("a long call", await call("trigger-long-running-operation", { duration: 1, steps: 4 },
    { onprogress: (p) => progress.push(`${p.progress}/${p.total}`) }), /completed/);
  // The SDK forgets the call's handler when it reads the answer, and may then not
  // have handed over the progress just before it.
  equal("progress", progress.slice(0, 3), ["1/4", "2/4", "3/4"]);

  matches("elicitation", await call("trigger-elicitation-request"), /Name: Ada/);
  matches("sampling", await call("trigger-sampling-request", { prompt: "ping", maxTokens: 5 }), /heard: .*ping/);
  equal("what the client was asked", [...new Set(asked)].sort(), ["elicitation", "roots", "sampling"]);
  // Over HTTP a question of a server on pipes cannot be told to one of several open
  // calls, which may be those of several clients; one process is one client.
  if (kind === "stdio") equal("several questions at once", (await Promise.all(Array.from({ length: 8 }, () => call("trigger-elicitation-request"))))
    .filter((text) => !/Name: Ada/.test(text)), []);

  const cancel = new AbortController();
  const cancelled = call("trigger-long-running-operation", { duration: 60, steps: 60 },
    { signal: cancel.signal, onprogress: () => cancel.abort("enough") });
  await cancelled.then(() => equal("cancellation", "a result", "an error"), (err) => matches("cancellation", String(err), /enough/));
  equal("a call after a cancelled one", await call("get-sum", { a: 2, b: 3 }), "The sum of 2 and 3 is 5.");

  const prompt = await client.getPrompt({ name: `${prefix}args-prompt`, arguments: { city: "Ulm" } });
  matches("prompts/get", prompt.messages[0].content.text, /Ulm/);
  const { resources } = await client.listResources();
  const uri = resources.find((r) => r.uri.endsWith("features.md"))?.uri;
  matches("resources/read", (await client.readResource({ uri })).contents[0].text, /^# Everything Server/);
  await rejects("a resource nobody has", client.readResource({ uri: "demo://nowhere" }), -32602);
  await client.close();
});

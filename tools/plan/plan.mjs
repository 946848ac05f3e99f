// The same work by one call after the other and by one plan, through mcpschedd in
// front of real servers: every result must be equal, and so must what is changed.
//
//   node plan.mjs WORK PROJECT TOKENS SQL-COMMAND… -- MCPSCHEDD
//
// WORK holds upstreams.toml, with the servers files, git and db; TOKENS counts the
// tokens of the JSON strings on its input. What the servers are is in steps.mjs.
import { readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { Agent } from "./agent.mjs";
import { equal, matches, run } from "./checks.mjs";
import { plan, reading, release, written } from "./steps.mjs";
import { counted, print, row } from "./table.mjs";
import { World } from "./world.mjs";

const [work, project, tokens, ...rest] = process.argv.slice(2);
const cut = rest.indexOf("--");
const world = new World(project, rest.slice(0, cut));
const mcpschedd = rest[cut + 1];
const rounds = 5;
const steps = release(project);

// within makes the world and a proxy anew and has an agent act there. key are lines
// of [plan]; null: there is no such section.
let proxies = 0;
async function within(key, options, act) {
  world.make();
  const file = `${work}/config-${++proxies}.toml`;
  const section = key === null ? "" : `\n[plan]\nenabled = true\n${key}\n`;
  writeFileSync(file, `[server]\nstate_dir = "${work}/state-${proxies}"\n\n${readFileSync(`${work}/upstreams.toml`)}${section}`);
  const agent = await Agent.connect(mcpschedd, ["serve", "--config", file], { root: project, without: key === null, ...options });
  try {
    await agent.warm(reading(project));
    const before = await agent.upstreamCalls();
    const began = performance.now();
    const out = await act(agent);
    const took = performance.now() - began;
    return { out, took, agent, calls: (await agent.upstreamCalls()) - before, state: world.state() };
  } finally {
    await agent.client.close();
  }
}

async function oneByOne(agent) {
  const texts = {}, values = {};
  for (const { id, tool, arguments: args, byHand } of steps) {
    const answer = await agent.call(tool, byHand ? byHand(texts) : args);
    if (answer.failed) throw new Error(`${id}: ${answer.text}`);
    texts[id] = answer.text;
    values[id] = answer.value;
  }
  return values;
}

// planned runs a plan, all results of which come back if outputs is left out.
const planned = (outputs) => (agent) => agent.call("execute_tool_plan", plan(steps, outputs && { output_steps: outputs }));

const nothing = [];
const states = (answer) => answer.structured?.steps?.map((s) => [s.id, s.status, s.reason]).filter(([, status]) => status !== "ok") ?? answer.text;

// same holds a plan that ran against the calls one by one.
function same(what, { out, agent, calls, state }, by, ids = steps.map((s) => s.id)) {
  equal(`${what}: every step ran`, states(out), nothing);
  equal(`${what}: client calls`, agent.turns.length, 1);
  equal(`${what}: calls of the servers`, calls, steps.length);
  const outputs = out.structured?.outputs ?? {};
  equal(`${what}: what comes back`, Object.keys(outputs).sort(), [...ids].sort());
  const others = ids.filter((id) => !isDeepStrictEqual(outputs[id], by.out[id]));
  equal(`${what}: results that are not what the call by itself gave`, others, nothing);
  for (const id of others) equal(`${what}: ${id}`, outputs[id], by.out[id]);
  equal(`${what}: what it left behind`, state, by.state);
}

// untouched holds a plan that must not have run against a world that was not changed.
function untouched(what, { out, calls, state }, why) {
  equal(`${what}: refused`, out.failed, true);
  for (const pattern of why) matches(`${what}: says why`, out.text, pattern);
  equal(`${what}: calls of the servers`, calls, 0);
  world.make();
  equal(`${what}: what it left behind`, state, world.state());
}

async function compare() {
  const last = ["commit", "record", "stored", "status"];
  const ways = { byHand: [], whole: [], brief: [] };
  for (let i = 0; i < rounds; i++) {
    ways.byHand.push(await within(null, {}, oneByOne));
    ways.whole.push(await within('mutations = "allow"', {}, planned()));
    ways.brief.push(await within('mutations = "allow"', {}, planned(last)));
  }
  const by = ways.byHand[0];
  matches("one by one: it changed what it should, digit by digit", by.state.releases, /1\.4\.0 \| +2 \| 9007199254740993\.50 /);
  matches("one by one: it committed", by.state.log, /^\w+ release 1\.4\.0: 2 tasks\n/);
  for (const again of ways.byHand.slice(1)) equal("one by one: the same again", [again.out, again.state], [by.out, by.state]);
  for (const one of ways.whole) same("a plan", one, by);
  for (const one of ways.brief) same("a plan of which four results come back", one, by, last);
  const { agent, out } = ways.whole[0];
  equal("a plan: progress", agent.progress >= steps.length - 1, true); // the last may come too late for the SDK
  matches("a plan: no digit is lost on the way back", out.text, /9007199254740993\.50/);

  show(ways);
  return by;
}

// show prints what each way cost.
function show({ byHand, whole, brief }) {
  const one = (name, way) => row(count, name, way[0].calls, way[0].agent.turns, way.map((w) => w.took));
  print([one("one by one", byHand), one("plan, all 12 results back", whole), one("plan, 4 results back", brief)]);
  const told = (way) => JSON.stringify(way[0].agent.tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })));
  const [without, all] = count([told(byHand), told(whole)]);
  console.log(`#    tokens written and read: of calls and of answers, o200k_base; sent again: what later turns send of them, without a prompt cache`);
  console.log(`#    the tools as a model is told of them: ${without} tokens without [plan], ${all} with it, in every turn`);
  console.log(`#    ms: median and range of ${rounds}, each in a process of its own that has made one call of each server`);
}

// count counts tokens as if the folder had a usual name, and always the same.
const count = (texts) => counted(tokens, texts.map((t) => t.replaceAll(project, "/srv/project")));

async function confirm(by) {
  const accepted = await within('mutations = "confirm"', { answer: "accept" }, planned());
  same("confirmed", accepted, by);
  equal("confirmed: asked once", accepted.agent.asked.length, 1);
  equal("confirmed: told of every write", written.filter((id) => !accepted.agent.asked[0]?.includes(`- ${id}: `)), nothing);
  for (const answer of ["decline", "cancel"]) {
    const one = await within('mutations = "confirm"', { answer }, planned());
    untouched(`${answer} instead of accept`, one, [/not run/]);
    equal(`${answer} instead of accept: asked once`, one.agent.asked.length, 1);
  }
  untouched("a client that cannot ask", await within('mutations = "confirm"', {}, planned()), [/not run/, /\[plan\]\.mutations/, ...written.map((id) => new RegExp(`step "${id}"`))]);
}

async function deny() {
  const refused = await within('mutations = "deny"', { answer: "accept" }, planned());
  untouched("denied", refused, written.map((id) => new RegExp(`step "${id}"`)));
  equal("denied: no user is asked", refused.agent.asked, nothing);
  equal("denied: the tool says that it only reads", refused.agent.tool("execute_tool_plan").annotations.readOnlyHint, true);
  const read = await within('mutations = "deny"', {}, (agent) => agent.call("execute_tool_plan", plan(reading(project))));
  equal("denied: what only reads runs", states(read.out), nothing);
  equal("denied: what only reads answers", read.out.structured?.outputs?.tasks, { title: "keep every digit" });
}

async function hidden() {
  for (const tool of ["files__move_file", "files/move_file"]) {
    const steps = [...reading(project), { id: "move", tool, arguments: { source: `${project}/release.txt`, destination: `${project}/gone.txt` } }];
    const one = await within('mutations = "allow"', {}, (agent) => agent.call("execute_tool_plan", plan(steps)));
    untouched(`${tool}, which tools.deny hides`, one, [/move/]);
  }
  const dry = await within('mutations = "allow"', {}, (agent) => agent.call("execute_tool_plan", plan(steps, { dry_run: true })));
  equal("dry_run: fine", dry.out.failed, false);
  equal("dry_run: calls of the servers", dry.calls, 0);
}

await run(
  "plan",
  async () => {
    const by = await compare();
    await confirm(by);
    await deny();
    await hidden();
  },
  240,
);

// Writes, and reads what was written, through one proxy in front of real servers:
// an answer from before a write is a failure, and so is a store that never
// serves. Lines are written and read by hand: what counts is _meta and the text.
//
//   node fresh.mjs PROJECT SQL-COMMAND… -- MCPSCHEDD serve --config FILE
//
// The upstreams are files (filesystem), git (git-mcp-go), both on PROJECT, and, if
// an SQL command is given (it takes the statement as its last argument), db
// (toolbox).
import { execFileSync, spawn } from "node:child_process";
import { lstatSync, renameSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { equal, matches, run } from "../scripts/checks.mjs";

const [project, ...rest] = process.argv.slice(2);
const cut = rest.indexOf("--");
const sql = rest.slice(0, cut);
const [command, ...args] = rest.slice(cut + 1);

const proxy = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
createInterface({ input: proxy.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method && message.id !== undefined) {
    const result = message.method === "roots/list" ? { roots: [{ uri: `file://${project}` }] } : {};
    proxy.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }) + "\n");
  } else if (waiting.has(message.id)) {
    waiting.get(message.id)(message);
  }
});
let id = 0;
function ask(method, params) {
  const n = ++id;
  proxy.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: n, method, params }) + "\n");
  return new Promise((resolve) => waiting.set(n, resolve));
}

// call makes a tools/call: its text, and how it was answered.
async function call(name, args) {
  const { result, error } = await ask("tools/call", { name, arguments: args });
  if (error) throw new Error(`${name}: ${error.message}`);
  return {
    text: result.content.map((c) => c.text ?? "").join(""),
    how: result._meta?.["mcpschedd/disposition"] ?? "fetched",
    failed: result.isError === true,
  };
}
const read = (path) => call("files__read_text_file", { path });
const write = (path, content) => call("files__write_file", { path, content });

// settled waits until a file is old enough for its answers to be stored.
const settled = () => sleep(2200);

// warm reads until the answer comes from the store, and returns that.
async function warm(what, again) {
  await again();
  const answer = await again();
  equal(`${what}: the second call comes from the store`, answer.how, "hit");
  return answer;
}

async function files() {
  const a = `${project}/a.txt`, b = `${project}/b.txt`, link = `${project}/link.txt`;
  writeFileSync(a, "one");
  symlinkSync(a, link);
  await settled();
  equal("a file: what is stored is what it holds", (await warm("a file", () => read(a))).text, "one");
  await warm("a file by its link", () => read(link));
  await write(a, "two");
  equal("a file: after a write through the proxy", (await read(a)).text, "two");
  equal("a file by its link: after a write to what it names", (await read(link)).text, "two");

  await settled();
  await warm("a file, written again", () => read(a));
  await write(link, "three");
  equal("a file: after a write through its link", (await read(a)).text, "three");

  await settled();
  await warm("a file to be moved", () => read(a));
  await call("files__move_file", { source: a, destination: b });
  equal("a moved file: gone from its old name", (await read(a)).failed, true);
  equal("a moved file: there under its new name", (await read(b)).text, "three");

  await settled();
  await warm("a file that others edit", () => read(b));
  writeFileSync(b, "four!");
  equal("a file: after an edit from outside", (await read(b)).text, "four!");

  await settled();
  await warm("a file edited from outside", () => read(b));
  const { atime, mtime } = statSync(b);
  writeFileSync(b, "five!");
  utimesSync(b, atime, mtime);
  equal("a file: after an edit that left its size and time as they were", (await read(b)).text, "five!");

  await settled();
  await warm("a file to be replaced", () => read(b));
  writeFileSync(`${b}.new`, "seven");
  utimesSync(`${b}.new`, atime, mtime);
  renameSync(`${b}.new`, b);
  equal("a file: after another took its name", (await read(b)).text, "seven");
  equal("the link is one", lstatSync(link).isSymbolicLink(), true);
}

async function git() {
  const status = () => call("git__git_status", { repo_path: project });
  await settled();
  await warm("git status", status);
  await write(`${project}/new.txt`, "new");
  matches("git status: after a write by another server of the domain", (await status()).text, /new\.txt/);
  const log = () => call("git__git_log", { repo_path: project });
  await warm("git log", log);
  await call("git__git_add", { repo_path: project, files: "new.txt" });
  await call("git__git_commit", { repo_path: project, message: "a second thing" });
  matches("git log: after a commit", (await log()).text, /a second thing/);
}

async function database() {
  const db = (statement) => call("db__execute_sql", { sql: statement });
  const count = async () => /"n":\s*(\d+)/.exec((await db("SELECT count(*) AS n FROM things")).text)?.[1];
  const truth = () => execFileSync(sql[0], [...sql.slice(1), "SELECT count(*) FROM things"], { encoding: "utf8" }).match(/\d+/)[0];
  await db("CREATE TABLE things (name text)");
  await warm("a count", () => db("SELECT count(*) AS n FROM things"));
  for (const statement of [
    "INSERT INTO things VALUES ('one')",
    "INSERT INTO things VALUES ('two'), ('three') RETURNING name",
    "WITH gone AS (DELETE FROM things WHERE name = 'two' RETURNING name) SELECT * FROM gone",
    "SELECT name FROM things; DELETE FROM things",
    "/* SELECT */ DELETE FROM things",
  ]) {
    await warm(`a count, before ${statement}`, () => db("SELECT count(*) AS n FROM things"));
    await db(statement);
    equal(`a count, after ${statement}`, await count(), truth());
  }
}

await run(
  "fresh",
  async () => {
    const capabilities = { roots: {} };
    await ask("initialize", { protocolVersion: "2025-11-25", capabilities, clientInfo: { name: "fresh", version: "1" } });
    proxy.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    await ask("tools/list", {});
    await files();
    await git();
    if (sql.length) await database();
    const stats = await ask("resources/read", { uri: "mcpschedd://stats" });
    const { totals } = JSON.parse(stats.result.contents[0].text);
    console.log(`#    ${JSON.stringify(totals)}`);
    equal("the totals tell of hits", totals.served_stored > 0, true);
    proxy.stdin.end();
  },
  120,
);

// The same work twice: as a plan, and as what a model does that reads each answer
// and writes the next call from its text. Twelve calls of three servers, each of
// which needs what came before it.

// release returns the steps on a project. A step is one of execute_tool_plan with
// byHand beside it: its arguments from the texts of the answers so far, id → text.
// Where neither a reference nor depends_on says what a step waits for, it is that
// it reads what the write before it changed.
export function release(project) {
  const notes = `${project}/notes.md`;
  const repository = { repo_path: project };
  const part = (text, name) => new RegExp(`"${name}":\\s*(\\[[^\\]]*\\]|"[^"]*"|[\\d.]+)`).exec(text)?.[1];
  return [
    { id: "tree", tool: "files__list_directory", arguments: { path: project } },
    { id: "spec", tool: "files__read_text_file", arguments: { path: `${project}/release.txt` }, depends_on: ["tree"] },
    {
      id: "open", tool: "db__execute_sql",
      arguments: { sql: { $tpl: "SELECT count(*) AS n, sum(weight) AS weight, json_agg(title ORDER BY id) AS titles FROM tasks WHERE release = '${spec#/content}'" } },
      byHand: (a) => ({ sql: `SELECT count(*) AS n, sum(weight) AS weight, json_agg(title ORDER BY id) AS titles FROM tasks WHERE release = '${a.spec}'` }),
    },
    {
      id: "claim", tool: "db__execute_sql", depends_on: ["open"],
      arguments: { sql: { $tpl: "WITH now AS (UPDATE tasks SET done = true WHERE release = '${spec#/content}' AND NOT done RETURNING id) SELECT count(*) AS n FROM now" } },
      byHand: (a) => ({ sql: `WITH now AS (UPDATE tasks SET done = true WHERE release = '${a.spec}' AND NOT done RETURNING id) SELECT count(*) AS n FROM now` }),
    },
    {
      id: "note", tool: "files__write_file",
      arguments: { path: notes, content: { $tpl: "# ${spec#/content}\n\n${claim#/n} tasks done, weight ${open#/weight}\n${open#/titles}\n" } },
      byHand: (a) => ({ path: notes, content: `# ${a.spec}\n\n${part(a.claim, "n")} tasks done, weight ${part(a.open, "weight")}\n${part(a.open, "titles")}\n` }),
    },
    { id: "check", tool: "files__read_text_file", arguments: { path: notes } },
    { id: "add", tool: "git__git_add", arguments: { ...repository, files: "notes.md" }, depends_on: ["check"] },
    {
      id: "commit", tool: "git__git_commit", depends_on: ["add"],
      arguments: { ...repository, message: { $tpl: "release ${spec#/content}: ${claim#/n} tasks" } },
      byHand: (a) => ({ ...repository, message: `release ${a.spec}: ${part(a.claim, "n")} tasks` }),
    },
    { id: "log", tool: "git__git_log", arguments: { ...repository, max_count: 1 } },
    {
      id: "record", tool: "db__execute_sql",
      arguments: { sql: { $tpl: "INSERT INTO releases (name, tasks, weight, note, log) VALUES ('${spec#/content}', ${claim#/n}, ${open#/weight}, '${check#/content}', '${log#}') RETURNING name, tasks, weight" } },
      byHand: (a) => ({ sql: `INSERT INTO releases (name, tasks, weight, note, log) VALUES ('${a.spec}', ${part(a.claim, "n")}, ${part(a.open, "weight")}, '${a.check}', '${a.log}') RETURNING name, tasks, weight` }),
    },
    {
      id: "stored", tool: "db__execute_sql",
      arguments: { sql: { $tpl: "SELECT name, tasks, weight, length(note) AS noted FROM releases WHERE name = '${record#/name}'" } },
      byHand: (a) => ({ sql: `SELECT name, tasks, weight, length(note) AS noted FROM releases WHERE name = '${part(a.record, "name").slice(1, -1)}'` }),
    },
    { id: "status", tool: "git__git_status", arguments: repository, depends_on: ["stored"] },
  ];
}

// written are the steps that change something whatever their arguments are.
export const written = ["claim", "note", "add", "commit", "record"];

// reading are steps that change nothing, as can be seen before they run.
export function reading(project) {
  return [
    { id: "spec", tool: "files__read_text_file", arguments: { path: `${project}/release.txt` } },
    { id: "log", tool: "git__git_log", arguments: { repo_path: project } },
    { id: "tasks", tool: "db__execute_sql", arguments: { sql: "SELECT title FROM tasks WHERE id = 1" } },
  ];
}

// plan is steps as the arguments of execute_tool_plan.
export function plan(steps, more = {}) {
  return { steps: steps.map(({ byHand, ...step }) => step), ...more };
}

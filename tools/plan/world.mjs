// What the servers work on: a folder that is a git repository, and a database. It
// can be made anew, and be looked at without them.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export class World {
  // sql is the command that runs the statement behind it.
  constructor(project, sql) {
    this.project = project;
    this.sql = sql;
  }

  // make leaves only what every run begins with. The folder itself stays, because a
  // server may have it open.
  make() {
    for (const name of readdirSync(this.project)) rmSync(join(this.project, name), { recursive: true });
    writeFileSync(`${this.project}/release.txt`, "1.4.0");
    this.git("init", "-q", "-b", "main");
    this.git("config", "user.name", "Ada");
    this.git("config", "user.email", "ada@example.org");
    this.git("add", ".");
    this.git("commit", "-qm", "a first thing");
    this.query(`SET client_min_messages = warning; DROP TABLE IF EXISTS tasks; DROP TABLE IF EXISTS releases;
      CREATE TABLE tasks (id serial PRIMARY KEY, release text, title text, weight numeric, done boolean DEFAULT false);
      CREATE TABLE releases (name text PRIMARY KEY, tasks int, weight numeric, note text, log text);
      INSERT INTO tasks (release, title, weight) VALUES ('1.4.0', 'keep every digit', 9007199254740992.25),
        ('1.4.0', 'say it in grüezi', 1.25), ('1.5.0', 'later', 7)`);
  }

  git(...args) {
    return execFileSync("git", args, { cwd: this.project, encoding: "utf8" });
  }

  query(statement) {
    return execFileSync(this.sql[0], [...this.sql.slice(1), statement], { encoding: "utf8" });
  }

  // state is all that a run may have changed.
  state() {
    const files = readdirSync(this.project).filter((name) => name !== ".git").sort();
    return {
      files: Object.fromEntries(files.map((name) => [name, readFileSync(join(this.project, name), "utf8")])),
      log: this.git("log", "--format=%H %s"),
      status: this.git("status", "--porcelain"),
      tasks: this.query("SELECT * FROM tasks ORDER BY id"),
      releases: this.query("SELECT * FROM releases ORDER BY name"),
    };
  }
}

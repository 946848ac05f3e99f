// What the same work costs in calls, tokens and time, as a table.
import { execFileSync } from "node:child_process";

const assumedTurn = 3; // seconds a model takes for one turn

// counted gives the tokens of texts, as the proxy counts them.
export function counted(command, texts) {
  const out = execFileSync(command, { input: texts.map((t) => JSON.stringify(t)).join("\n"), encoding: "utf8" });
  return out.trim().split("\n").map(Number);
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const middle = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

// row is one way of doing the work: its turns, which are the same in every run, and
// how long each run took, in milliseconds. count gives the tokens of texts.
export function row(count, name, calls, turns, took) {
  const tokens = count(turns.flatMap((t) => [t.wrote, t.read]));
  const each = turns.map((_, i) => tokens[2 * i] + tokens[2 * i + 1]);
  const wrote = sum(tokens.filter((_, i) => i % 2 === 0));
  return {
    "": name,
    "client calls": turns.length,
    "tool calls": calls,
    "tokens written": wrote,
    "tokens read": sum(each) - wrote,
    "into the context": sum(each),
    "sent again": sum(each.map((n, i) => n * (turns.length - i))),
    "ms": middle(took).toFixed(0),
    "ms, range": `${Math.min(...took).toFixed(0)}-${Math.max(...took).toFixed(0)}`,
    [`s, if a turn takes ${assumedTurn} s (assumed)`]: (turns.length * assumedTurn + middle(took) / 1000).toFixed(1),
  };
}

export function print(rows) {
  const heads = Object.keys(rows[0]);
  const wide = heads.map((h) => Math.max(h.length, ...rows.map((r) => String(r[h]).length)));
  const line = (cells) => console.log(cells.map((c, i) => (i ? String(c).padStart(wide[i]) : String(c).padEnd(wide[i]))).join("  "));
  line(heads);
  for (const r of rows) line(heads.map((h) => r[h]));
}

// Compares two result folders of the conformance suite: which checks pass in
// the first and fail in the second. Exit status 1 if there are any.
import { readdirSync, readFileSync, existsSync } from "node:fs";
import { join } from "node:path";

const load = (root) => {
  const checks = new Map();
  for (const folder of readdirSync(root)) {
    const file = join(root, folder, "checks.json");
    if (!existsSync(file)) continue;
    const scenario = folder.replace(/-\d{4}-\d\d-\d\dT.*$/, "");
    for (const c of JSON.parse(readFileSync(file, "utf8"))) checks.set(`${scenario} ${c.id}`, c);
  }
  return checks;
};

const [direct, through] = process.argv.slice(2).map(load);
let lost = 0;
for (const [name, check] of direct) {
  const now = through.get(name);
  if (check.status === "SUCCESS" && (!now || now.status === "FAILURE")) {
    lost++;
    console.log(`lost: ${name}: ${now ? now.errorMessage : "not run"}`);
  }
}
console.log(`${direct.size} checks directly, ${lost} lost through the proxy`);
process.exit(lost ? 1 : 0);

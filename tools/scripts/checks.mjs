// One line for each check, and exit code 1 if one failed.
import { isDeepStrictEqual } from "node:util";

let failed = 0;
export let label = "";

// run names the client under test and runs its checks; whatever is thrown is a
// failure too, and so is a client that does not come to an end.
export async function run(name, checks, seconds = 60) {
  label = name;
  const late = setTimeout(() => {
    console.log(`FAIL ${label}: not done after ${seconds} s`);
    process.exit(1);
  }, seconds * 1000);
  try {
    await checks();
  } catch (err) {
    failed++;
    console.log(`FAIL ${label}: ${err?.message ?? err}`);
  }
  clearTimeout(late);
  process.exit(failed ? 1 : 0);
}

export function equal(what, got, want) {
  if (isDeepStrictEqual(got, want)) {
    console.log(`ok   ${label}: ${what}`);
    return;
  }
  failed++;
  console.log(`FAIL ${label}: ${what}: got ${JSON.stringify(got)?.slice(0, 500)}, want ${JSON.stringify(want)?.slice(0, 500)}`);
}

export function matches(what, got, pattern) {
  equal(what, pattern.test(got) ? "" : `${got} (want ${pattern})`, "");
}

// rejects says that a call ended with an error of this code.
export async function rejects(what, promise, code) {
  const got = await promise.then(() => "a result", (err) => err.code);
  equal(what, got, code);
}

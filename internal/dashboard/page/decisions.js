// The latest prefetch decisions, with their reasons.

for (const [key, { word, meaning }] of Object.entries(WORDS.reasons)) {
  if (key !== "(other)") $("reasons").append(el("dt", null, word + " ", el("code", null, key)), el("dd", null, meaning));
}

const TONES = { low_probability: "", gate: "", unsteady: "warn", stored: "good", in_flight: "good", rate_limited: "warn", quota: "warn", throttled: "warn", disclosure: "bad", origin: "bad" };
const MOST_DECISIONS = 5;
let allDecisions = false;

const moreDecisions = el("button", { type: "button", hidden: true });
$("why").after(moreDecisions);
moreDecisions.addEventListener("click", () => {
  allDecisions = !allDecisions;
  if (lastView) showDecisions(lastView);
});

function tag(text, tone, title) {
  return el("span", { class: "tag", "data-tone": tone || undefined, title }, text);
}

// decided shows what happened to a candidate, and whether it was then called.
function decided(c) {
  if (!c.reason) return [tag("prefetched", "good", "It was fetched before the client called it."), c.called ? " and called" : " but not called in time"];
  const [word, meaning] = reason(c.reason);
  return [tag(word, Object.hasOwn(TONES, c.reason) && TONES[c.reason], meaning), c.called ? " but called" : ""];
}

// together groups candidates of one tool with the same outcome into one row if they differ
// only in an argument whose value is not recorded.
function together(top) {
  const rows = new Map();
  for (const c of top) {
    const bare = !(c.differs || "").includes("="), key = bare ? [c.tool, c.reason, c.called, c.differs].join("\n") : rows.size;
    if (rows.has(key)) rows.get(key).push(c);
    else rows.set(key, [c]);
  }
  return [...rows.values()];
}

// which identifies the calls of a row by the arguments in which they differ from others, with
// their values if these are recorded.
function which(all) {
  const differs = clean(all[0].differs, 120);
  if (all.length > 1) return plural(all.length, "call") + (differs ? ", each with a different " + differs : "");
  return !differs || differs.includes("=") ? differs : "with a different " + differs;
}

function candidate(all) {
  const [c] = all, from = share(all[all.length - 1].p), to = share(c.p), meant = which(all);
  return el("li", { class: "candidate" },
    el("span", { class: "p" }, from === to ? to : from.replace(" %", "") + "–" + to),
    el("span", null, named(c.tool, 60), meant ? el("span", { class: "note which" }, named(meant, 140)) : null),
    el("span", { class: "said note" }, decided(c), c.value_ms > 0 ? ` · would hide ${took(c.value_ms)}` : "", c.tokens > 0 ? ` · ${plural(c.tokens, "token")}` : ""));
}

function decision(d) {
  const others = Object.entries(d.declined || {}).sort((a, b) => b[1] - a[1]).map(([k, n]) => `${reason(k)[0]} ${count(n)}`).join(", ");
  return el("article", { class: "decision" },
    el("div", null, el("h3", null, "After ", d.name ? named(d.name, 60) : "a result"),
      el("p", { class: "note" }, clock(d.at) + ", ", named(sessionName(d.session), 48)),
      el("p", { class: "note" }, `${count(d.issued)} of ${count(d.candidates)} prefetched`)),
    el("div", null, el("ul", null, together(d.top || []).map(candidate)), others ? el("p", { class: "note" }, "Not prefetched: " + others) : ""));
}

function showDecisions(v) {
  const list = v.decisions.toSorted((a, b) => b.at - a.at); // they arrive in the order in which their outcomes became known
  moreDecisions.hidden = list.length <= MOST_DECISIONS;
  say(moreDecisions, allDecisions ? "Show fewer" : `Show all ${list.length} decisions`);
  if (!changed("why", list, allDecisions)) return;
  $("why").replaceChildren(...(allDecisions ? list : list.slice(0, MOST_DECISIONS)).map(decision));
  if (list.length === 0) $("why").append(empty("No decisions yet.", "After each result, mcpschedd weighs the calls that may follow. There are no candidates until a follow-up has been learned or configured, and none with [enrichment] mode = \"off\"."));
}

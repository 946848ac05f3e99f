// The last decisions, with their reasons in words.

for (const [key, { word, meaning }] of Object.entries(WORDS.reasons)) {
  if (key !== "(other)" && key !== "panic") $("reasons").append(el("dt", null, word + " ", el("code", null, key)), el("dd", null, meaning));
}

const TONES = { low_probability: "", gate: "", unsteady: "warn", stored: "good", in_flight: "good", rate_limited: "warn", throttled: "warn", disclosure: "bad", origin: "bad", panic: "bad" };
const MOST_DECISIONS = 8;
let allDecisions = false;

const moreDecisions = el("button", { type: "button" });
moreDecisions.addEventListener("click", () => {
  allDecisions = !allDecisions;
  if (lastView) showDecisions(lastView);
});

function tag(text, tone, title) {
  return el("span", { class: "tag", "data-tone": tone || undefined, title }, text);
}

// unguessed says why there is no prefetch, by the reasons that were given last.
function unguessed(v) {
  const n = new Map();
  for (const d of v.decisions || []) for (const [k, times] of Object.entries(d.declined || {})) n.set(k, (n.get(k) || 0) + times);
  const all = [...n.values()].reduce((a, b) => a + b, 0);
  const most = [...n].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 2);
  if (!changed("unguessed", most, all)) return;
  $("unguessed-why").replaceChildren(...(most.length > 0
    ? [`Of the ${plural(all, "call")} thought of in the last decisions: `, el("ul", null, most.map(([k, times]) => el("li", null, `${count(times)} `, el("b", null, reason(k)[0]), ". " + reason(k)[1])))]
    : ['What follows what has to be seen a few times before it is trusted (shadow_labels), tools must be known to only read (mcpschedd check --connect lists those that are not), and [enrichment] mode must be "on".']));
}

// outcome says what became of a candidate, and whether that was right.
function outcome(c) {
  if (!c.reason) return [tag("begun", "good", "It was fetched before anybody asked."), c.called ? " and asked for" : " but not asked for in time"];
  const [word, meaning] = reason(c.reason);
  return [tag(word, Object.hasOwn(TONES, c.reason) && TONES[c.reason], meaning), c.called ? " yet asked for" : ""];
}

function guess(c) {
  return el("li", { class: "guess" }, el("span", { class: "p" }, share(c.p)), named(c.tool, 60),
    el("span", { class: "said note" }, outcome(c), c.value_ms > 0 ? ` · would hide ${took(c.value_ms)}` : "", c.tokens > 0 ? ` · ${plural(c.tokens, "token")}` : ""));
}

function decision(d) {
  const others = Object.entries(d.declined || {}).sort((a, b) => b[1] - a[1]).map(([k, n]) => `${reason(k)[0]} ${count(n)}`).join(", ");
  return el("article", { class: "decision" },
    el("div", null, el("h3", null, "After ", d.after ? named(d.after, 60) : "an answer"),
      el("p", { class: "note" }, clock(d.at_us) + ", session ", named(d.session, 16)),
      el("p", { class: "note" }, `${count(d.issued)} of ${count(d.candidates)} begun` + (d.best_ms > 0 ? `; hid ${took(d.achieved_ms)} of ${took(d.best_ms)} possible` : ""))),
    el("div", null, el("ul", null, (d.top || []).map(guess)), others ? el("p", { class: "note" }, "Not begun: " + others) : ""));
}

function showDecisions(v) {
  lastView = v;
  const box = $("why"), list = (v.decisions || []).slice().sort((a, b) => b.at_us - a.at_us); // they come as what was right became known
  if (list.length === 0) {
    if (changed("why", "none")) box.replaceChildren(empty("No decision so far.", "After each answer the calls that may follow are weighed. There is nothing to weigh until something has been seen to follow, or a follow_up is configured; with [enrichment] mode = \"off\" nothing is."));
    return;
  }
  if (changed("why", "some")) box.replaceChildren();
  moreDecisions.remove();
  keep(box, allDecisions ? list : list.slice(0, MOST_DECISIONS), (d) => [d.at_us, d.session, d.after, d.candidates, d.issued].join("\n"), decision);
  say(moreDecisions, allDecisions ? "Show fewer" : `Show all ${list.length} decisions`);
  if (list.length > MOST_DECISIONS) box.after(moreDecisions);
}

// The headline figures.

const CARDS = [
  ["hidden", "Waiting hidden", "wide"],
  ["served", "Reads answered ahead", "", "part"],
  ["accuracy", "Prefetches that were right", "", "part"],
  ["upstream", "Upstream calls per call"],
  ["harm", "Harm to others"],
  ["turns", "Model turns saved"],
  ["tokens", "Tokens saved"],
];

for (const [key, title, wide, part] of CARDS) {
  $("cards").append(el("div", { class: wide ? "card wide" : "card", id: "card-" + key },
    el("h3", null, title), el("p", { class: "figure" }), wide ? el("div", { class: "waits" }) : part ? el("div", { class: "part", "aria-hidden": "true" }, el("span")) : null, el("p", { class: "note" })));
}

function card(key, figure, unit, note, tone) {
  const box = $("card-" + key);
  if (!changed("card " + key, figure, unit, note, tone)) return;
  box.querySelector(".figure").replaceChildren(figure, unit ? el("small", null, " " + unit) : "");
  box.querySelector(".note").textContent = note;
  box.dataset.tone = tone || "";
}

function showCards(s) {
  const t = s.totals, p = t.prefetch, would = t.tool_ms_hidden + t.tool_ms_waited;
  card("hidden", took(t.tool_ms_hidden), would > 0 ? `of ${took(would)}, ${share(t.tool_ms_hidden / would)}` : "",
    t.calls > 0 ? `${plural(t.calls, "call")} in all: ${count(t.served_stored)} from the store, ${count(t.joined)} joined, ${count(t.fetched)} fetched, ${count(t.failed)} not answered.` : "No call so far: figures come with the first one.");
  showWaits(t, would);
  card("served", share(t.served_share), "", `${count(p.used)} of ${plural(t.reads, "read")}`, p.used > 0 ? "good" : "");
  const ended = p.issued - p.open; // the others may still be used
  const fates = ended > 0 ? [`${count(p.used)} of ${plural(ended, "prefetch", "prefetches")} used${p.used > 0 ? `, ${share(p.timeliness)} of these in time` : ""}`] : [];
  if (p.open > 0) fates.push(underWay(s));
  card("accuracy", ended > 0 ? share(p.accuracy) : "–", "", fates.join("; ") || "No prefetch so far");
  $("card-served").querySelector(".part span").style.width = 100 * t.served_share + "%";
  $("card-accuracy").querySelector(".part span").style.width = 100 * p.accuracy + "%";
  card("upstream", t.calls > 0 ? "×\u2009" + t.upstream_amplification.toFixed(2) : "–", "", `${count(t.upstream_calls)} for ${plural(t.calls, "call")}`);
  const h = t.harm, harmed = h.foreground_wait_ms > 0 || h.rate_limited + h.evictions + h.questions > 0;
  card("harm", !harmed ? "none" : h.foreground_wait_ms > 0 ? took(h.foreground_wait_ms) : count(h.rate_limited + h.evictions + h.questions), harmed ? (h.foreground_wait_ms > 0 ? "waited" : "times") : "",
    harmed ? `${plural(h.rate_limited, "rate limit")}, ${plural(h.evictions, "eviction")}, ${plural(h.questions, "question")}` : "No call waited for a prefetch", harmed ? "bad" : "good");
  card("turns", count(t.llm_turns_saved.plan), "", t.plans > 0 ? `by ${plural(t.plans, "plan")} of ${plural(t.plan_steps, "call")}` : "No plan so far");
  card("tokens", count(t.context_tokens_saved), "", `not sent, beside ${count(t.tokens_to_client)} that were`);
  $("unguessed").hidden = t.calls === 0 || p.issued > 0;
  say($("report-line"), s.report || "");
}

// underWay are the prefetches that have no end yet; once no session is open, they were
// cut off with their process.
const underWay = (s) => count(s.totals.prefetch.open) + (s.sessions_open > 0 ? " under way" : " whose end was not recorded");

// showWaits is the bar of the first card.
function showWaits(t, would) {
  const box = $("card-hidden").querySelector(".waits");
  const parts = [
    ["hid", "By prefetches", t.tool_ms_hidden_prefetch],
    ["rep", "By repeats", Math.max(0, t.tool_ms_hidden - t.tool_ms_hidden_prefetch)],
    ["wai", "Waited", t.tool_ms_waited],
  ];
  if (!box.firstChild) {
    box.append(el("div", { class: "split", "aria-hidden": "true" }, parts.map(([c]) => el("span", { class: c }))),
      el("ul", { class: "legend", "aria-label": "Where the time went" }, parts.map(([c, text]) => el("li", null, el("span", { class: "key " + c, "aria-hidden": "true" }), text + " ", el("b")))));
  }
  parts.forEach(([, , ms], i) => {
    box.querySelectorAll(".split span")[i].style.width = (would > 0 ? (100 * ms) / would : 0) + "%";
    say(box.querySelectorAll("b")[i], took(ms));
  });
}

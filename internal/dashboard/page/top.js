// The first screen: savings, problems, servers and clients.

const WAITS = [["hid", "hidden by prefetches"], ["rep", "hidden by repeats"], ["wai", "waited"]];

// waits returns the times of one tool, or of all, in the order of WAITS.
const waits = (p) => [p.tool_ms_hidden_prefetch, Math.max(0, p.tool_ms_hidden - p.tool_ms_hidden_prefetch), p.tool_ms_waited];

const keyed = ([c, text], ...more) => el("li", null, el("span", { class: "key " + c, "aria-hidden": "true" }), text, ...more);

function showSaved(v) {
  const t = v.stats.totals, ms = waits(t), all = ms[0] + ms[1] + ms[2];
  say($("saved"), v.saved);
  if (!changed("waits", ms)) return;
  $("waits").replaceChildren(...(all > 0 ? [
    el("div", { class: "split", "aria-hidden": "true" }, WAITS.map(([c]) => el("span", { class: c }))),
    el("ul", { class: "legend", "aria-label": "Where the time went" }, WAITS.map((w, i) => keyed(w, " ", el("b", null, took(ms[i]))))),
  ] : [el("p", { class: "note" }, "Figures appear after the first tool call through mcpschedd.")]));
  $("waits").querySelectorAll(".split span").forEach((bar, i) => { bar.style.width = (100 * ms[i]) / all + "%"; });
}

// parted lists the counts that are not zero, given as [count, word, ending of the plural].
const parted = (counts) => counts.filter(([n]) => n > 0).map(([n, word, end]) => plural(n, word, word + (end || ""))).join(", ");

// facts returns the figures below the sentence: key, name, figure, details, and whether the
// figure is a bad one.
function facts({ totals: t }) {
  const p = t.prefetch, h = t.harm, ended = p.issued - p.open; // open prefetches may still be used
  if (t.calls + t.plans + p.issued === 0) return [];
  const calls = parted([[t.served_stored, "from the cache"], [t.joined, "joined"], [t.fetched, "fetched"], [t.failed, "not answered"]]);
  const rest = parted([[p.open, "in flight"]]);
  const harm = parted([[h.rate_limited, "rate limit response", "s"], [h.evictions, "eviction", "s"], [h.questions, "question", "s"]]);
  const all = [
    ["calls", "Calls", count(t.calls), calls],
    ["reads", "From prefetches", share(t.served_share), `${count(p.used)} of ${plural(t.reads, "read")}`],
    ["used", "Prefetches used", ended > 0 ? share(p.accuracy) : "–", joined(`${count(p.used)} of ${count(ended)}`, rest)],
    ["requests", "Requests per call", t.calls > 0 ? t.upstream_amplification.toFixed(2) : "–", `${count(t.upstream_calls)} for ${plural(t.calls, "call")}`],
    ["harm", "Added waiting", h.foreground_wait_ms > 0 ? took(h.foreground_wait_ms) : "none", joined("by prefetches", harm), h.foreground_wait_ms > 0 || harm !== ""],
  ];
  const turns = t.llm_turns_saved.plan, tokens = t.context_tokens_saved;
  if (turns > 0) all.push(["turns", "Turns saved", count(turns), `by ${plural(t.plans, "plan")} with ${plural(t.plan_steps, "call")}`]);
  if (tokens > 0) all.push(["tokens", "Tokens saved", count(tokens), `${count(t.tokens_to_client)} sent`]);
  return all;
}

function showFacts(s) {
  const all = facts(s);
  if (!changed("facts", all)) return;
  $("facts").replaceChildren(...all.map(([key, name, figure, note, bad]) => el("div", { id: "fact-" + key, "data-tone": bad && "bad" },
    el("dt", null, name), el("dd", { class: "figure" }, figure), note ? el("dd", { class: "note" }, note) : null)));
}

const MOST_WRONG = 6;

function showWrong(v) {
  const all = v.wrong;
  if (!changed("wrong", all)) return;
  const item = (w) => el("li", null, el("span", null, named(w.what, 400)), w.mend ? el("code", null, named(w.mend, 200)) : null);
  if (all.length === 0) {
    $("wrong").replaceChildren(el("p", { class: "fine" }, v.recorded ? "✓ No problems recorded." : "✓ No problems."));
    return;
  }
  const rest = all.slice(MOST_WRONG);
  $("wrong").replaceChildren(el("ul", { class: "problems" }, all.slice(0, MOST_WRONG).map(item)),
    rest.length > 0 ? el("details", null, el("summary", null, `And ${count(rest.length)} more`), el("ul", { class: "problems" }, rest.map(item))) : "");
}

// moment formats a time, without the date if it is today.
function moment(text) {
  const at = new Date(text);
  return isNaN(at) ? "" : (at.toDateString() === new Date().toDateString() ? minuteOf : dayOf).format(at);
}

const memory = (kb) => (kb > 0 ? count(kb / 1024) + " MB" : "–");

function state(u) {
  const since = u.since ? " since " + moment(u.since) : "";
  return [el("span", { class: "lamp", "aria-hidden": "true", "data-state": u.state }), joined(clean(u.state, 20) + since, u.restarts > 0 && plural(u.restarts, "restart"))];
}

// remark shows an upstream's last error, or why it saves less than it could and the
// configuration line that changes this.
function remark(u) {
  const text = u.error || u.why;
  return text ? el("div", { class: "remark" }, named(text, 200), u.change && u.state !== "down" ? el("code", null, named(u.change, 160)) : null) : "";
}

const drawServers = table($("servers"), {
  caption: "Servers and their state", noun: "servers", most: 20,
  columns: [
    { title: "Server", cell: (u) => named(u.name) },
    { title: "State", class: "bare", cell: state },
    { title: "Tools", num: true, cell: (u) => count(u.tools) },
    { title: "Cacheable", num: true, cell: (u) => count(u.cacheable) },
    { title: "Prefetchable", num: true, cell: (u) => count(u.prefetchable) },
    { title: "Memory", num: true, cell: (u) => memory(u.memory_kb) },
    { title: "Last error or note", class: "text bare", cell: remark },
  ],
});

// given shows the tokens delivered to a client's sessions, and what remains to the one that is
// nearest to its limit.
const given = ({ used, left }) => (used || left !== undefined ? joined(count(used || 0), left !== undefined && count(left)) : "–");

// poolWords describes the rest of the token pool that a process's sessions share.
const poolWords = ({ pool }) => (pool ? `Token pool: ${count(Math.max(0, pool.tokens - pool.used))} of ${count(pool.tokens)} left for the next ${took(pool.left_s * 1000)}.` : "");

const drawClients = table($("clients"), {
  caption: "Open sessions by client and directory", noun: "clients", most: 10,
  columns: [
    { title: "Client", cell: (c) => named(c.client || "unknown client") },
    { title: "Directory", class: "text", cell: (c) => (c.dir ? named(c.dir, 200) : "unknown") },
    { title: "Process", cell: (c) => `${c.pid}, ${clean(c.transport || "stdio", 10)}, since ${moment(c.since)}` },
    { title: "Sessions", num: true, cell: (c) => count(c.sessions) },
    { title: "Tokens delivered, left", num: true, cell: given },
    { title: "Memory", num: true, cell: (c) => memory(c.memory_kb) },
  ],
});

function showServers(v) {
  const running = v.stats.running || [];
  $("servers-section").hidden = v.recorded; // server states are not recorded
  $("clients-part").hidden = running.length === 0;
  say($("pool"), running.map((p) => poolWords(p)).filter(Boolean).join(" "));
  drawServers(v.servers || [], empty("No servers.", running.length > 0
    ? "None is configured: mcpschedd import moves your client's servers here, mcpschedd add adds one."
    : "Servers are shown while mcpschedd is running; your client starts it."));
  // Only what is shown, so that the rows are not drawn again when something else of the process changes.
  drawClients(running.flatMap(({ pid, dir, transport, since, memory_kb, clients }) => (clients || []).map((c) => ({ pid, dir, transport, since, memory_kb, ...c }))),
    empty("No client is connected.", "A client is listed while it has an open session."));
}

// A session is named by its client and directory and, if these are not unique, its start time.
let sessionNames = new Map(); // session → display name

function nameSessions(v) {
  const called = (s) => (s.client || "unknown client") + (s.dir ? " in " + s.dir.split(/[/\\]/).filter(Boolean).slice(-2).join("/") : "");
  const shared = new Map();
  for (const s of v.sessions || []) shared.set(called(s), (shared.get(called(s)) || 0) + 1);
  sessionNames = new Map((v.sessions || []).map((s) => [s.session, called(s) + (shared.get(called(s)) > 1 && s.begin ? ", " + clock(Date.parse(s.begin)) : "")]));
}

const sessionName = (session) => sessionNames.get(session) || session;

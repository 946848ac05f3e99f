// Polling: the view is fetched once a second while the page is visible.

const EVERY = 1000, SLOWEST = 30000, TIMEOUT = 8000; // ms
let paused = false, recorded = false, failures = 0, goneSince = 0, timer = 0, asking = false;

// status shows the page's state. A recorded view does not change, so it cannot be paused.
function status(state, text) {
  $("pause").hidden = state === "recorded" || (state === "wait" && !lastView);
  $("status").dataset.state = state;
  say($("status-text"), text);
}

function showAbout(s) {
  const config = s.config || {};
  const sessions = `${plural(s.sessions, "session")} (${count(s.sessions_open)} open)`;
  const text = s.processes > 0 ? joined(plural(s.processes, "process", "processes"), sessions, "figures of " + took(s.uptime_s * 1000)) + " · " : "\u00a0";
  if (changed("about", text, config.path)) $("about").replaceChildren(text, s.processes === 0 ? "" : config.path ? named(config.path, 120) : "built-in defaults");
}

// lately adds to an event what the page needs, and the zeros that its JSON omits.
const lately = (e) => ({
  session: "", seq: 0, latency_ms: 0, hidden_ms: 0, predicted_p: 0, candidates: 0, issued: 0, from: 0, to: 0, ...e,
  at: Date.parse(e.ts) || 0, name: e.upstream && e.tool ? e.upstream + "/" + e.tool : e.tool || "",
});

// parts are the sections of the page; folded sections are not drawn.
const parts = [
  ["saved", showSaved], ["facts", (v) => showFacts(v.stats)], ["wrong", showWrong], ["servers", showServers], ["tools", (v) => showTools(v.stats)],
  ["line", showTimeline], ["graph", showGraph], ["why", showDecisions], ["hosts", showHosts], ["figures", (v) => showFigures(v.stats)],
];
let lastView = null;

function show(v) {
  lastView = v;
  showAbout(v.stats);
  nameSessions(v);
  unfold(v);
  for (const [id, draw] of parts) if (!$(id).closest("details:not([open])")) draw(v);
}

// Sections below the tools are folded in a narrow window, and until the first call.
const folds = document.querySelectorAll("details.fold");
for (const fold of folds) fold.addEventListener("toggle", () => { if (fold.open && lastView) show(lastView); });

let unfolded = false;
function unfold(v) {
  if (unfolded || narrow.matches || (v.timeline || []).length === 0) return;
  unfolded = true;
  for (const fold of folds) if (fold.matches(".first")) fold.open = true;
}

// ask fetches and shows the view, and schedules the next request.
async function ask() {
  clearTimeout(timer);
  if (paused || recorded || document.hidden || asking) return;
  asking = true;
  let view = null, trouble = "";
  try {
    const answer = await fetch("dashboard/view.json", { cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(TIMEOUT) });
    if (answer.ok) view = await answer.json();
    else trouble = answer.status === 401 ? "This page no longer has access: open a new address" : "The proxy responded with status " + answer.status;
  } catch {
    goneSince ||= Date.now();
    trouble = "No response from the proxy since " + clockOf.format(goneSince);
  }
  asking = false;
  failures = view ? 0 : failures + 1;
  if (paused) return;
  recorded = Boolean(view?.recorded);
  const wait = Math.min(SLOWEST, EVERY * 2 ** failures);
  if (!recorded) timer = setTimeout(ask, wait);
  say($("retry"), view ? "" : `Retrying in ${wait / 1000} s.${lastView ? " These are the last figures received." : ""}`);
  if (!view) return status("gone", trouble);
  goneSince = 0;
  for (const list of ["timeline", "decisions", "levels"]) view[list] = view[list].map(lately);
  show(view);
  status(recorded ? "recorded" : "live", recorded ? "Recorded" : "Live");
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  if (paused) {
    clearTimeout(timer);
    status("paused", "Paused");
    say($("retry"), "");
  } else {
    status("wait", "Connecting…");
    ask();
  }
});

document.addEventListener("visibilitychange", ask);
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => { if (lastView) show(lastView); }, 100);
});
ask();

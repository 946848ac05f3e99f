// The limits and the prefetch level of each host.

const meter = (h) => [el("span", { class: "meter", "aria-hidden": "true", "data-level": h.level }, [1, 2, 3, 4].map((n) => el("i", { class: n <= h.level && "on" }))), level(h.level)];

const of = (n, most) => count(n || 0) + (most ? " of " + count(most) : "");

const drawHosts = table($("hosts"), {
  caption: "Limits and throttle level of each host", sort: "Host", noun: "hosts",
  columns: [
    { title: "Host", text: true, cell: (h) => named(h.host || "(none)"), value: (h) => h.host },
    { title: "Prefetching", cell: meter, value: (h) => h.level },
    { title: "In flight", num: true, cell: (h) => of(h.in_flight, h.concurrency), value: (h) => h.in_flight || 0 },
    { title: "Waiting", num: true, cell: (h) => count(h.waiting || 0), value: (h) => h.waiting || 0 },
    { title: "Rate", num: true, cell: (h) => (h.rate ? short.format(h.rate) + "/s" : "no limit"), value: (h) => h.rate || Infinity },
    { title: "Calls left", num: true, cell: (h) => (h.rate ? of(Math.floor(h.tokens || 0), h.burst) : "–"), value: (h) => h.tokens || 0 },
    { title: "Prefetches, 1 h", num: true, cell: (h) => count(h.prefetches_last_hour || 0), value: (h) => h.prefetches_last_hour || 0 },
    { title: "Rate limited", num: true, cell: (h) => count(h.limited || 0) + (h.cooling_ms > 0 ? ", cooling down for " + took(h.cooling_ms) : ""), value: (h) => h.limited || 0 },
    { title: "Harm", num: true, cell: (h) => (h.harm_ms > 0 ? took(h.harm_ms) : "none"), value: (h) => h.harm_ms || 0 },
  ],
});

const drawLevels = table($("levels"), {
  caption: "Level changes, newest first", most: 8, noun: "changes",
  columns: [
    { title: "Time", cell: (l) => clock(l.at) },
    { title: "Host or session", cell: (l) => named(l.host || sessionName(l.session), 48) },
    { title: "From", cell: (l) => level(l.from) },
    { title: "To", cell: (l) => (l.to > l.from ? "↑ " : "↓ ") + level(l.to) },
    { title: "Why", class: "text", cell: (l) => named((l.why || "").replaceAll("_", " "), 120) },
  ],
});

function showHosts(v) {
  const hosts = Object.entries(v.stats.hosts || {}).map(([host, h]) => ({ ...h, host }));
  $("hosts").hidden = v.recorded; // host limits are not recorded
  drawHosts(hosts, empty("No hosts yet.", "A host is listed from its first call on. Limits set under [limits] bind every call; without any, only prefetches are held back."));
  drawLevels(v.levels || [], empty("No level changes.", "All hosts and sessions are at their initial level, as configured."));
}

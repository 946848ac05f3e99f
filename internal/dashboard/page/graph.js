// Call sequences: the latest calls by which tool came in the turn after which, as a table. The
// most frequent pairs are also drawn, with the tools that came first on the left, unless the
// window is narrow or there are few.

const MOST_EDGES = 25;

// sequences counts pairs of tools. Where turns are not known, each call is a turn. Steps of plans
// do not count: the model fixed their order before the first was answered.
function sequences(events) {
  const pairs = new Map(), followed = new Map(), sessions = new Map(), called = new Map();
  const pair = (from, to) => {
    const key = JSON.stringify([from, to]);
    if (!pairs.has(key)) pairs.set(key, { from, to, n: 0, issued: 0, used: 0 });
    return pairs.get(key);
  };
  for (const e of events.filter((e) => e.kind === "call" && e.upstream)) {
    called.set(spot(e, e.seq), e.name);
    if (e.plan) continue;
    if (!sessions.has(e.session)) sessions.set(e.session, []);
    const turns = sessions.get(e.session), last = turns.at(-1);
    if (last && e.turn && last.turn === e.turn) last.tools.add(e.name);
    else turns.push({ turn: e.turn, tools: new Set([e.name]) });
  }
  for (const turns of sessions.values()) turns.slice(1).forEach(({ tools }, i) => {
    for (const from of turns[i].tools) {
      followed.set(from, (followed.get(from) || 0) + 1);
      for (const to of tools) pair(from, to).n++;
    }
  });
  for (const e of events.filter((e) => e.kind === "prefetch" && called.has(spot(e, e.after)))) {
    const p = pair(called.get(spot(e, e.after)), e.name);
    p.issued++;
    if (e.fate === "used" || e.fate === "late") p.used++;
  }
  return [...pairs.values()].map((p) => ({ ...p, p: p.n / (followed.get(p.from) || 1) }));
}

// strongest returns the pairs to draw, by count times probability. A pair seen once is not a
// habit.
const strongest = (graph) => graph.filter((e) => e.n >= 2).sort((a, b) => b.n * b.p - a.n * a.p).slice(0, MOST_EDGES);

$("graph-legend").append(...[["ahead", "prefetched and used"], ["", "not yet"]].map(([c, text]) => el("li", null,
  svg("svg", { class: "key", viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("path", { class: "edge-line " + c, d: "M0 6H22", "stroke-width": 2.4, "stroke-dasharray": c ? undefined : "4 3" })), text)));

const drawGraphTable = table($("graph-table"), {
  caption: "Call sequences", sort: "Times", most: 25, noun: "pairs",
  columns: [
    { title: "After", text: true, cell: (e) => named(e.from), value: (e) => e.from },
    { title: "Next", text: true, cell: (e) => named(e.to), value: (e) => e.to },
    { title: "Probability", num: true, cell: (e) => share(e.p), value: (e) => e.p },
    { title: "Times", num: true, cell: (e) => count(e.n), value: (e) => e.n },
    { title: "Prefetches", num: true, cell: (e) => count(e.issued), value: (e) => e.issued },
    { title: "Used", num: true, cell: (e) => count(e.used), value: (e) => e.used },
    { title: "Accuracy", num: true, cell: (e) => (e.issued > 0 ? share(e.used / e.issued) : "–"), value: (e) => e.used / e.issued || 0 },
  ],
});

function showGraph(v) {
  const graph = sequences(v.timeline), edges = strongest(graph), w = width($("graph"));
  drawGraphTable(graph, empty("No call sequences yet.", "A pair is listed once one call has followed another."));
  if (!changed("graph", edges, graph.length > 0, w)) return;
  pictureOr("graph", w >= 560 && edges.length >= 3 ? drawGraph(edges, w) : null);
}

function drawGraph(edges, w) {
  const nodeW = 190, nodeH = 28, step = nodeH + 12, right = Math.min(w, 2 * nodeW + 420) - nodeW - 1;
  const column = (names, x) => new Map(names.map((name, i) => [name, { x, y: 4 + i * step + nodeH / 2 }]));
  const from = column([...new Set(edges.map((e) => e.from))], 1);
  const above = (name) => { // mean height of the tools before it
    const before = edges.filter((e) => e.to === name).map((e) => from.get(e.from).y);
    return before.reduce((a, b) => a + b) / before.length;
  };
  const to = column([...new Set(edges.map((e) => e.to))].sort((a, b) => above(a) - above(b)), right);
  const h = Math.max(from.size, to.size) * step, top = edges[0], lines = svg("g"), texts = svg("g"), placed = [];
  for (const e of edges) {
    const a = from.get(e.from), b = to.get(e.to), left = a.x + nodeW, middle = (left + b.x) / 2;
    lines.prepend(svg("path", { class: "edge-line" + (e.used > 0 ? " ahead" : ""), d: `M${left} ${a.y}C${middle} ${a.y} ${middle} ${b.y} ${b.x} ${b.y}`, "stroke-width": round(0.8 + 3.4 * e.p), "stroke-dasharray": e.used > 0 ? undefined : "4 3", "marker-end": "url(#tip)" },
      svg("title", null, `After ${clean(e.from)} comes ${clean(e.to)}: ${share(e.p)}, ${plural(e.n, "time")}; ${count(e.used)} of ${plural(e.issued, "prefetch", "prefetches")} used`)));
    const at = [0.5, 0.35, 0.65, 0.2, 0.8].map((t) => ({ x: left + (b.x - left) * (1.5 * t * (1 - t) + t ** 3), y: a.y + (b.y - a.y) * (3 - 2 * t) * t * t }))
      .find((at) => placed.every((p) => Math.abs(p.x - at.x) > 36 || Math.abs(p.y - at.y) > 15));
    if (!at) continue; // the table has it
    placed.push(at);
    texts.append(svg("text", { class: "p", x: round(at.x), y: round(at.y + 4), "text-anchor": "middle" }, share(e.p)));
  }
  const nodes = [...from, ...to].map(([n, p]) => svg("g", null, svg("title", null, clean(n, 200)), svg("rect", { class: "node", x: p.x, y: p.y - nodeH / 2, width: nodeW, height: nodeH, rx: 7 }),
    svg("text", { class: "name", x: p.x + nodeW / 2, y: p.y + 4, "text-anchor": "middle", direction: "ltr", "unicode-bidi": "isolate" }, within(n, nodeW - 16))));
  return svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Graph of ${plural(edges.length, "pair")} of tools. The strongest: after ${clean(top.from)} comes ${clean(top.to)}, ${share(top.p)}. The table below has all of them.` }, lines, nodes, texts);
}

// within shortens a name to fit. The tool's own name is more important than its upstream's.
function within(name, room) {
  const all = clean(name, 200), own = "…" + all.slice(all.indexOf("/"));
  return fits(all, room) === all || !all.includes("/") ? fits(all, room) : fits(own, room);
}

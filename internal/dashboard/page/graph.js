// The graph of call sequences, drawn in layers from left to right.
//
// Each tool stands one layer after the last tool that leads to it, along the stronger edges
// that close no cycle. Within a layer, tools are ordered by the mean position of their
// neighbours (Sugiyama, Tagawa and Toda 1981). In a narrow window, or with fewer than three
// edges, only the table is shown.

const MOST_EDGES = 25;

// strongest returns the edges to draw, by count times probability. An edge seen once is not a
// habit, and a probability below 0.01 is not of interest.
const strongest = (graph) => graph.filter((e) => e.n >= 2 && e.p >= 0.01).sort((a, b) => b.n * b.p - a.n * a.p).slice(0, MOST_EDGES);

$("graph-legend").append(...[["ahead", "prefetched and used"], ["", "not yet"]].map(([c, text]) => el("li", null,
  svg("svg", { class: "key", viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("path", { class: "edge-line " + c, d: "M0 6H22", "stroke-width": 2.4, "stroke-dasharray": c ? undefined : "4 3" })), text)));

const drawGraphTable = table($("graph-table"), {
  caption: "Call sequences", key: (e) => JSON.stringify([e.from, e.to]), sort: "Times", most: 25, noun: "pairs",
  columns: [
    { title: "After", text: true, cell: (e) => named(e.from), value: (e) => e.from },
    { title: "Next", text: true, cell: (e) => named(e.to), value: (e) => e.to },
    { title: "Probability", num: true, cell: (e) => share(e.p), value: (e) => e.p },
    { title: "Times", num: true, cell: (e) => count(e.n), value: (e) => e.n },
    { title: "Prefetches", num: true, cell: (e) => count(e.issued), value: (e) => e.issued },
    { title: "Used", num: true, cell: (e) => count(e.used), value: (e) => e.used },
    { title: "Accuracy", num: true, cell: (e) => (e.issued > 0 ? share(e.accuracy) : "–"), value: (e) => e.accuracy },
  ],
});

function showGraph(v) {
  const box = $("graph"), graph = v.graph || [], edges = strongest(graph), w = width(box);
  drawGraphTable(graph, empty("No call sequences yet.", "A pair is listed once one call has followed another."));
  if (!changed("graph", edges, graph.length > 0, w)) return;
  pictureOr("graph", w >= 560 && edges.length >= 3 ? drawGraph(edges, w) : null);
}

// layers assigns each tool to one of at most `most` layers.
function layers(edges, most) {
  const out = new Map(), next = new Map(); // tool → layer; tool → targets of strong edges that close no cycle
  for (const e of edges) for (const n of [e.from, e.to]) out.set(n, 0);
  const leads = (from, to, been = new Set()) => from === to || (!been.has(from) && been.add(from) && (next.get(from) || []).some((n) => leads(n, to, been)));
  for (const e of edges.slice(0, Math.ceil(edges.length * 0.6))) if (e.from !== e.to && !leads(e.to, e.from)) next.set(e.from, [...(next.get(e.from) || []), e.to]);
  for (let round = 0; round < out.size; round++) {
    for (const [from, list] of next) for (const to of list) out.set(to, Math.max(out.get(to), out.get(from) + 1));
  }
  for (const [n, l] of out) out.set(n, Math.min(l, most - 1));
  return out;
}

// columns orders the tools of each layer so that few edges cross.
function columns(edges, layer) {
  const cols = [];
  for (const [n, l] of layer) (cols[l] ||= []).push(n);
  const list = cols.filter(Boolean);
  const at = new Map();
  const number = () => list.forEach((c) => c.forEach((n, i) => at.set(n, (i + 0.5) / c.length)));
  number();
  for (let sweep = 0; sweep < 6; sweep++) {
    for (const c of sweep % 2 ? list.slice().reverse() : list) {
      const middle = new Map(c.map((n) => {
        const near = edges.filter((e) => e.from !== e.to && (e.from === n || e.to === n)).map((e) => at.get(e.from === n ? e.to : e.from));
        return [n, near.length ? near.reduce((a, b) => a + b) / near.length : at.get(n)];
      }));
      c.sort((a, b) => middle.get(a) - middle.get(b));
      number();
    }
  }
  return list;
}

function drawGraph(edges, w) {
  const nodeH = 28, gap = 20, arcs = 64;
  const cols = columns(edges, layers(edges, Math.min(6, Math.max(2, Math.floor(w / 200)))));
  const nodeW = Math.min(176, ((w - arcs) / cols.length) * 0.72);
  const rows = Math.max(...cols.map((c) => c.length)), h = Math.max(rows, 2) * (nodeH + gap) + 8;
  const place = new Map();
  cols.forEach((c, l) => c.forEach((n, i) => {
    const x = 1 + l * Math.min(300, (w - arcs - nodeW - 2) / Math.max(1, cols.length - 1));
    place.set(n, { x, y: 4 + ((i + 0.5) * (h - 8)) / c.length, l, i });
  }));
  const top = edges[0];
  const out = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `Graph of ${plural(place.size, "tool")} and ${plural(edges.length, "edge")}. The strongest: after ${clean(top.from)} comes ${clean(top.to)}, ${share(top.p)}. The table below has all of them.` });
  const boxes = Array.from(place.values(), (p) => ({ x: p.x, y: p.y - nodeH / 2, w: nodeW, h: nodeH })); // labels must not overlap these
  const lines = svg("g"), texts = svg("g");
  for (const e of edges.slice().reverse()) {
    const curve = course(place.get(e.from), place.get(e.to), nodeW, nodeH);
    lines.append(svg("path", { class: "edge-line" + (e.used > 0 ? " ahead" : ""), d: curve.d, "stroke-width": round(0.8 + 3.4 * e.p), "stroke-dasharray": e.used > 0 ? undefined : "4 3", "marker-end": "url(#tip)" },
      svg("title", null, `After ${clean(e.from)} comes ${clean(e.to)}: ${share(e.p)}, ${plural(e.n, "time")}; ${count(e.used)} of ${plural(e.issued, "prefetch", "prefetches")} used`)));
  }
  for (const e of edges) {
    const curve = course(place.get(e.from), place.get(e.to), nodeW, nodeH);
    const text = share(e.p), box = free(curve.at, measured(text, "600 10.5px") + 6, 15, boxes, w, h);
    if (!box) continue; // the table has it
    boxes.push(box);
    texts.append(svg("text", { class: "p", x: round(box.x + box.w / 2), y: round(box.y + 11), "text-anchor": "middle" }, text));
  }
  out.append(lines);
  for (const [n, p] of place) {
    out.append(svg("g", null, svg("title", null, clean(n, 200)), svg("rect", { class: "node", x: round(p.x), y: round(p.y - nodeH / 2), width: round(nodeW), height: nodeH, rx: 7 }),
      svg("text", { class: "name", x: round(p.x + nodeW / 2), y: round(p.y + 4), "text-anchor": "middle", direction: "ltr", "unicode-bidi": "isolate" }, within(n, nodeW - 16))));
  }
  out.append(texts);
  return out;
}

// within shortens a name to fit. The tool's own name is more important than its upstream's.
function within(name, room) {
  const all = clean(name, 200), own = "…" + all.slice(all.indexOf("/"));
  return fits(all, room) === all || !all.includes("/") ? fits(all, room) : fits(own, room);
}

// course returns an edge's path, and its points as a function of 0 to 1.
function course(a, b, nodeW, nodeH) {
  let p;
  if (a === b) {
    const x = a.x + nodeW, y = a.y;
    p = [[x, y - 7], [x + 34, y - 16], [x + 34, y + 16], [x, y + 7]];
  } else if (a.l === b.l) {
    const off = a.i < b.i ? 4 : -4, bulge = 30 + 7 * Math.abs(a.i - b.i);
    const x = a.x + nodeW;
    p = [[x, a.y + off], [x + bulge * 1.25, a.y + off], [x + bulge * 1.25, b.y - off], [x, b.y - off]];
  } else if (a.l < b.l) {
    const x = a.x + nodeW, pull = (b.x - x) * 0.5;
    p = [[x, a.y], [x + pull, a.y], [b.x - pull, b.y], [b.x, b.y]];
  } else {
    const x = b.x + nodeW, pull = (a.x - x) * 0.5, low = nodeH * 0.28;
    p = [[a.x, a.y + low], [a.x - pull, a.y + low * 2.4], [x + pull, b.y + low * 2.4], [x, b.y + low]];
  }
  const at = (t) => [0, 1].map((k) => (1 - t) ** 3 * p[0][k] + 3 * (1 - t) ** 2 * t * p[1][k] + 3 * (1 - t) * t ** 2 * p[2][k] + t ** 3 * p[3][k]);
  const f = (q) => round(q[0]) + " " + round(q[1]);
  return { d: `M${f(p[0])}C${f(p[1])} ${f(p[2])} ${f(p[3])}`, at };
}

// free returns a place for a label of that size on its edge that overlaps nothing, as near to
// the middle as possible; null if there is none.
function free(at, w, h, boxes, wide, high) {
  for (let i = 0; i <= 40; i++) {
    const p = at(0.5 + (i % 2 ? 1 : -1) * Math.ceil(i / 2) * 0.021);
    const box = { x: p[0] - w / 2, y: p[1] - h / 2, w, h };
    if (box.x < 0 || box.y < 0 || box.x + w > wide || box.y + h > high) continue;
    if (boxes.every((b) => box.x >= b.x + b.w || b.x >= box.x + w || box.y >= b.y + b.h || b.y >= box.y + h)) return box;
  }
  return null;
}

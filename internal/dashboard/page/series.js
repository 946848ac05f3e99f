// Coverage and accuracy over time.

const SPANS = [["1800", "30 min"], ["21600", "6 h"], ["0", "All"]];
let seriesSpan = "1800";

choice($("series-span"), "series-span", SPANS.map(([v, t]) => [v, t, v === seriesSpan]), (v) => {
  seriesSpan = v;
  if (lastView) showSeries(lastView);
});
$("series-legend").append(
  el("li", null, svg("svg", { class: "key", viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("path", { class: "line l-cov", d: "M0 6H22", "stroke-width": 2 }), svg("circle", { class: "p-cov", cx: 11, cy: 6, r: 3.5 })), "Coverage"),
  el("li", null, svg("svg", { class: "key", viewBox: "0 0 22 12", "aria-hidden": "true" }, svg("path", { class: "line l-acc", d: "M0 6H22", "stroke-width": 2 }), svg("rect", { class: "p-acc", x: 7.5, y: 2.5, width: 7, height: 7 })), "Accuracy"));

// bins sums points into at most n periods of equal length.
function bins(points, from, to, n) {
  const step = Math.max(10e6, (to - from) / n);
  const out = [];
  for (const p of points) {
    const mid = p.at_us + p.span_s * 5e5;
    if (mid < from || p.at_us > to) continue;
    const i = Math.min(n - 1, Math.max(0, Math.floor((mid - from) / step)));
    const b = (out[i] ||= { at: from + (i + 0.5) * step, reads: 0, served: 0, issued: 0, used: 0, hidden: 0, waited: 0 });
    b.reads += p.reads; b.served += p.served; b.issued += p.issued; b.used += p.used; b.hidden += p.hidden_ms; b.waited += p.waited_ms;
  }
  return { step, list: Object.values(out) };
}

const coverage = (b) => (b.reads > 0 ? Math.min(1, b.served / b.reads) : null);
const accuracy = (b) => (b.issued > 0 ? b.used / b.issued : null);

const drawSeriesTable = table($("series-table"), {
  caption: "Coverage and accuracy over time", key: (b) => String(b.at), most: 20, noun: "periods",
  columns: [
    { title: "Around", cell: (b) => dayOf.format(b.at / 1000) },
    { title: "Coverage", num: true, cell: (b) => (coverage(b) === null ? "–" : share(coverage(b))) },
    { title: "Reads", num: true, cell: (b) => count(b.reads) },
    { title: "Accuracy", num: true, cell: (b) => (accuracy(b) === null ? "–" : share(accuracy(b))) },
    { title: "Prefetches", num: true, cell: (b) => count(b.issued) },
    { title: "Hidden", num: true, cell: (b) => took(b.hidden) },
    { title: "Waited", num: true, cell: (b) => took(b.waited) },
  ],
});

function showSeries(v) {
  const box = $("series"), points = v.series || [];
  const last = points[points.length - 1] || { at_us: v.now_us, span_s: 10 }, first = points[0] || last;
  const to = Math.max(v.now_us, last.at_us + last.span_s * 1e6);
  const wanted = seriesSpan === "0" ? to - first.at_us : Math.min(Number(seriesSpan) * 1e6, Math.max(to - first.at_us, 60e6));
  const from = to - Math.max(wanted, 60e6);
  const { list, step } = bins(points, from, to, 24);
  drawSeriesTable(list.slice().reverse(), empty("No data yet.", "There is one row for each period in which a read was answered or a prefetch ended."));
  if (!changed("series", list, width(box), seriesSpan, Math.floor(to / 5e6))) return;
  pictureOr("series", list.filter((b) => coverage(b) !== null).length >= 3 ? drawSeries(list, from, to, step, width(box)) : null);
}

function drawSeries(list, from, to, step, w) {
  const h = 236, left = 44, right = 10, top = 10, bottom = 40;
  const x = (us) => round(left + ((us - from) / (to - from)) * (w - left - right));
  const y = (n) => round(top + (1 - n) * (h - top - bottom));
  const out = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": sumUp(list) });
  for (const n of [0, 0.25, 0.5, 0.75, 1]) {
    out.append(svg("path", { class: n === 0 ? "axis" : "grid", d: `M${left} ${y(n)}H${w - right}` }), svg("text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, n * 100 + ""));
  }
  const { list: at, form } = ticks(from, to, Math.max(2, Math.floor((w - left) / 95)));
  for (const us of at) {
    if (x(us) > left + 12 && x(us) < w - right - 12) out.append(svg("path", { class: "axis", d: `M${x(us)} ${y(0)}v4` }), svg("text", { x: x(us), y: h - bottom + 17, "text-anchor": "middle" }, form.format(us / 1000)));
  }
  out.append(svg("text", { x: (left + w - right) / 2, y: h - 5, "text-anchor": "middle" }, "Time of day"),
    svg("text", { x: 11, y: (top + h - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 11 ${(top + h - bottom) / 2})` }, "Share (%)"));
  for (const [f, line, mark] of [[accuracy, "l-acc", square], [coverage, "l-cov", dot]]) {
    let d = "", before = null;
    for (const b of list) {
      if (f(b) === null) { before = null; continue; }
      d += (before !== null && b.at - before < step * 2.5 ? "L" : "M") + x(b.at) + " " + y(f(b));
      before = b.at;
    }
    out.append(svg("path", { class: "line " + line, d }));
    for (const b of list) if (f(b) !== null) out.append(mark(x(b.at), y(f(b)), `${form.format(b.at / 1000)}: ${f === coverage ? "coverage" : "accuracy"} ${share(f(b))} of ${count(f === coverage ? b.reads : b.issued)}`));
  }
  return out;
}

const dot = (cx, cy, title) => svg("circle", { class: "p-cov", cx, cy, r: 3.2 }, svg("title", null, title));
const square = (x, y, title) => svg("rect", { class: "p-acc", x: x - 3, y: y - 3, width: 6, height: 6 }, svg("title", null, title));

function sumUp(list) {
  const t = { reads: 0, served: 0, issued: 0, used: 0 };
  for (const b of list) for (const k of Object.keys(t)) t[k] += b[k];
  const said = (n) => (n === null ? "unknown" : share(n));
  return `Line chart. In the time shown coverage is ${said(coverage(t))} of ${count(t.reads)} reads, accuracy ${said(accuracy(t))} of ${count(t.issued)} prefetches.`;
}

// The timeline: a lane for each session, its calls above and its prefetches below.

const LATEST = 60, MOST_LANES = 6, MOST_ROWS = 4;

// showKinds draws the legend, with only the outcomes that occur.
function showKinds(bars) {
  const shown = new Set(bars.map(outcome));
  const entries = (what, outcomes, high) => Object.entries(outcomes).filter(([o]) => shown.has(o)).map(([o, text]) => el("li", null,
    svg("svg", { class: "key", viewBox: "0 0 22 12", "aria-hidden": "true" }, mark(o, SHAPES[o] ? 5 : 1, 6, 20, high)), `${what}, ${text}`));
  $("line-legend").replaceChildren(...entries("call", CALLS, 9), ...entries("prefetch", PREFETCHES, 7));
}

// SHAPES are the outcomes that are no bars, drawn around the origin with a radius of 1. Outcomes
// differ in shape and pattern as well as in colour.
const SHAPES = { ahead: "M-1 0L0-1L1 0L0 1z", hit: "M-.8 0a.8.8 0 1 1 1.6 0a.8.8 0 1 1-1.6 0z", failed: "M-.8-.8L.8.8M.8-.8L-.8.8" };

// mark draws one call or prefetch, given its left end, vertical middle, length and height.
function mark(outcome, x, y, long, high) {
  const r = high / 2 + 0.5;
  return SHAPES[outcome] ? svg("path", { class: "m-" + outcome, d: SHAPES[outcome], transform: `translate(${round(x + r)} ${y}) scale(${r})` })
    : svg("rect", { class: "m-" + outcome, x: round(x), y: round(y - high / 2), width: round(Math.max(3, long)), height: high, rx: 1.5 });
}

const drawLineTable = table($("line-table"), {
  caption: "Latest calls and prefetches", most: 20, noun: "lines",
  columns: [
    { title: "Time", cell: (b) => clock(b.at) },
    { title: "Session", cell: (b) => named(sessionName(b.session), 48) },
    { title: "Kind", cell: (b) => (b.kind === "prefetch" ? "Prefetch" : b.plan ? "Call by a plan" : "Call") },
    { title: "Tool", cell: (b) => named(b.name) },
    { title: "Outcome", cell: how },
    { title: "Probability", num: true, cell: (b) => (b.predicted_p > 0 ? share(b.predicted_p) : "–") },
    { title: "Took", num: true, cell: (b) => took(b.latency_ms) },
    { title: "Hidden", num: true, cell: (b) => (b.hidden_ms > 0 ? took(b.hidden_ms) : "–") },
  ],
});

function showTimeline(v) {
  const box = $("line"), bars = v.timeline || [];
  drawLineTable(bars.slice(-100).reverse(), empty("No calls yet.", "A call appears once it has been answered, a prefetch once its outcome is known."));
  const shown = bars.slice(-LATEST);
  if (!changed("line", shown, v.sessions, width(box))) return;
  showKinds(shown);
  pictureOr("line", shown.length > 0 ? drawTimeline(shown, width(box)) : null);
}

const end = (b) => b.at + b.latency_ms;

// axisOf maps times to pixels. Longer idle periods are cut to a few pixels, so that activity
// fills the width.
function axisOf(bars, w) {
  const cut = 44, sorted = bars.slice().sort((a, b) => a.at - b.at);
  let parts = [];
  for (let pause = 4000; ; pause *= 2) { // until the cuts take at most a quarter of the width
    parts = [];
    for (const b of sorted) {
      const last = parts[parts.length - 1];
      if (last && b.at - last.to <= pause) last.to = Math.max(last.to, end(b));
      else parts.push({ from: b.at, to: end(b) });
    }
    if ((parts.length - 1) * cut <= w / 4) break;
  }
  const busy = parts.reduce((sum, p) => sum + Math.max(p.to - p.from, 100), 0);
  const perMS = (w - 24 - (parts.length - 1) * cut) / busy;
  let x = 4;
  for (const p of parts) {
    p.x = x;
    p.w = Math.max(p.to - p.from, 100) * perMS;
    x += p.w + cut;
  }
  const at = (t) => {
    const p = parts.findLast((p) => t >= p.from) || parts[0];
    return p.x + Math.min(t - p.from, p.to - p.from) * perMS;
  };
  return { parts, pixel: 1 / perMS, x: at };
}

// lanes groups bars by session, the latest session first, and assigns rows so that bars do not
// overlap.
function lanes(bars, pixel) {
  const by = new Map();
  for (const b of bars) {
    if (!by.has(b.session)) by.set(b.session, { session: b.session, last: 0, calls: [], prefetches: [] });
    const lane = by.get(b.session);
    lane.last = Math.max(lane.last, b.at);
    (b.kind === "prefetch" ? lane.prefetches : lane.calls).push(b);
  }
  const list = [...by.values()].sort((a, b) => b.last - a.last);
  for (const lane of list) for (const part of [lane.calls, lane.prefetches]) {
    const free = [];
    part.sort((a, b) => a.at - b.at);
    for (const b of part) {
      let row = free.findIndex((end) => end <= b.at);
      if (row < 0) row = free.length < MOST_ROWS ? free.length : free.indexOf(Math.min(...free));
      free[row] = Math.max(end(b), b.at + 11 * pixel) + pixel;
      b.row = row;
    }
    part.rows = Math.max(1, free.length);
  }
  return list;
}

const spot = (b, seq) => [b.session, seq].join("\n");

function drawTimeline(bars, w) {
  const callH = 11, prefetchH = 8, pad = 6, title = 17, axis = axisOf(bars, w);
  const all = lanes(bars, axis.pixel), list = all.slice(0, MOST_LANES);
  const high = (l) => 2 * pad + l.calls.rows * (callH + 2) + 4 + l.prefetches.rows * (prefetchH + 2);
  const h = list.reduce((sum, l) => sum + title + high(l) + 8, 4) + 36 + (all.length > list.length ? 16 : 0);
  const out = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": sumUpLine(bars, all.length) });
  const spots = new Map(), threads = svg("g"), marks = svg("g");
  let y = 4;
  for (const lane of list) {
    const counts = `${plural(lane.calls.length, "call")}, ${plural(lane.prefetches.length, "prefetch", "prefetches")}`;
    out.append(svg("text", { class: "name", x: 0, y: y + 11 }, svg("title", null, clean(lane.session, 80)), fits(clean(sessionName(lane.session), 80), w - measured(counts, "11px") - 24)),
      svg("text", { x: w, y: y + 11, "text-anchor": "end" }, counts),
      svg("rect", { class: "lane", x: 0, y: y + title, width: w, height: high(lane), rx: 6 }));
    for (const [part, above, step] of [[lane.calls, y + title + pad, callH + 2], [lane.prefetches, y + title + pad + lane.calls.rows * (callH + 2) + 4, prefetchH + 2]]) {
      for (const b of part) {
        const left = axis.x(b.at), right = axis.x(end(b)), middle = above + b.row * step + (step - 2) / 2;
        spots.set(spot(b, b.seq), { left, right: Math.max(left + 3, right), y: middle });
        const m = mark(outcome(b), left, middle, right - left, step - 2);
        const what = `${clock(b.at)} ${b.kind === "prefetch" ? "prefetch" : "call"} of ${clean(b.name)}: ${how(b)}`;
        m.append(svg("title", null, joined(what, took(b.latency_ms), b.hidden_ms > 0 && took(b.hidden_ms) + " hidden")));
        marks.append(m);
      }
    }
    y += title + high(lane) + 8;
  }
  for (const b of bars) {
    const a = b.use_of && spots.get(spot({ session: b.use_of_session || b.session }, b.use_of)), c = spots.get(spot(b, b.seq));
    if (a && c) threads.append(svg("path", { class: "thread", d: `M${round(a.right)} ${a.y}C${round(a.right + 4)} ${round(c.y + 6)} ${round(c.left + 3)} ${round(a.y - 4)} ${round(c.left + 5)} ${round(c.y + 4)}` }));
  }
  out.append(threads, marks);
  drawAxis(out, axis, y, w);
  if (all.length > list.length) out.append(svg("text", { x: 0, y: h - 4 }, `and ${plural(all.length - list.length, "session")} more`));
  return out;
}

// drawAxis labels the ends of each part with their time of day where it fits, and each cut with
// its length.
function drawAxis(out, { parts, x }, y, w) {
  let free = 0; // right end of the last label
  const label = (time) => {
    const text = clock(time), wide = measured(text, "11px"), at = Math.min(Math.max(x(time), wide / 2), w - wide / 2);
    if (at - wide / 2 < free) return;
    free = at + wide / 2 + 12;
    out.append(svg("path", { class: "axis", d: `M${round(x(time))} ${y}v4` }), svg("text", { x: round(at), y: y + 16, "text-anchor": "middle" }, text));
  };
  parts.forEach((p, i) => {
    out.append(svg("path", { class: "axis", d: `M${round(p.x)} ${y}h${round(Math.max(p.w, 1))}` }));
    label(p.from);
    label(p.to);
    if (i === 0) return;
    const before = parts[i - 1], middle = (before.x + before.w + p.x) / 2;
    out.append(svg("path", { class: "cut", d: `M${round(middle)} 4V${y}` }),
      svg("text", { x: round(middle), y: y + 30, "text-anchor": "middle" }, took(p.from - before.to)));
  });
}

function sumUpLine(bars, sessions) {
  const n = (f) => count(bars.filter(f).length);
  return `Timeline of ${plural(sessions, "session")}: ${n((b) => b.kind !== "prefetch")} calls, ${n((b) => outcome(b) === "ahead")} of them from prefetches; ${n((b) => b.kind === "prefetch")} prefetches, ${n((b) => outcome(b) === "wasted")} of them wasted. The table below has the latest.`;
}

// The timeline: a lane for each session, its calls above and its prefetches below.

const LINE_SPANS = [["30", "30 s"], ["120", "2 min"], ["600", "10 min"], ["0", "All"]];
const MOST_LANES = 6, MOST_ROWS = 4;
let lineSpan = "120";

choice($("line-span"), "line-span", LINE_SPANS.map(([v, t]) => [v, t, v === lineSpan]), (v) => {
  lineSpan = v;
  if (lastView) showTimeline(lastView);
});

// KINDS are told apart by shape and pattern as well as by colour.
const KINDS = [
  ["fetched", "call, fetched"], ["ahead", "call, answered ahead"], ["hit", "call, from the store"], ["joined", "call, joined another"], ["failed", "call, not answered"],
  ["used", "prefetch, used"], ["late", "prefetch, used late"], ["wasted", "prefetch, wasted"], ["compared", "prefetch, compared"],
];
$("line-legend").append(...KINDS.map(([kind, text]) => el("li", null,
  svg("svg", { class: "key", viewBox: "0 0 22 12", "aria-hidden": "true" }, mark(kind, kind === "ahead" ? 5 : 1, 6, kind === "ahead" ? 0 : 20, ["used", "late", "wasted", "compared"].includes(kind) ? 7 : 9)), text)));

function kind(b) {
  if (b.what === "prefetch") return ["used", "late", "wasted", "compared"].includes(b.how) ? b.how : "open";
  if (b.guessed && (b.how === "hit" || b.how === "joined")) return "ahead";
  return ["hit", "joined", "failed"].includes(b.how) ? b.how : "fetched";
}

// mark draws one bar: its left end, its middle line, its length and its height.
function mark(kind, x, y, long, high) {
  const bar = (c, w) => svg("rect", { class: "m-" + c, x: round(x), y: round(y - high / 2), width: round(Math.max(3, w)), height: high, rx: 1.5 });
  switch (kind) {
    case "ahead": {
      const r = high / 2 + 1;
      const diamond = svg("path", { class: "m-ahead", d: `M${round(x)} ${y}l${r} ${-r}l${r} ${r}l${-r} ${r}z` });
      return long > 2 * r + 2 ? svg("g", null, bar("late", long), diamond) : diamond;
    }
    case "hit":
      return svg("circle", { class: "m-hit", cx: round(x + high / 2), cy: y, r: high / 2 - 0.5 });
    case "failed": {
      const r = high / 2 - 1;
      return svg("path", { class: "m-cross", d: `M${round(x)} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}` });
    }
    default:
      return bar(kind, long);
  }
}

const drawLineTable = table($("line-table"), {
  caption: "The last calls and prefetches", key: (b) => [b.session, b.seq, b.what].join("\n"), most: 20, noun: "lines",
  columns: [
    { title: "Time", cell: (b) => clock(b.at_us) },
    { title: "Session", cell: (b) => named(b.session, 16) },
    { title: "What", cell: (b) => (b.what === "prefetch" ? "Prefetch" : b.plan ? "Call of a plan" : "Call") },
    { title: "Tool", cell: (b) => named(b.tool) },
    { title: "What became of it", cell: how },
    { title: "Probability", num: true, cell: (b) => (b.p > 0 ? share(b.p) : "–") },
    { title: "Took", num: true, cell: (b) => took(b.ms) },
    { title: "Hidden", num: true, cell: (b) => (b.hidden_ms > 0 ? took(b.hidden_ms) : "–") },
  ],
});

function showTimeline(v) {
  lastView = v;
  const box = $("line"), bars = v.timeline || [];
  drawLineTable(bars.slice(-100).reverse(), empty("No call so far.", ""));
  if (bars.length === 0) {
    if (changed("line", "none")) box.replaceChildren(empty("No call so far.", "Calls appear here as soon as they have been answered, and prefetches as soon as it is known what became of them."));
    return;
  }
  const ends = Math.max(...bars.map((b) => b.at_us + b.ms * 1e3)), begins = Math.min(...bars.map((b) => b.at_us));
  let span = lineSpan === "0" ? Math.max(10e6, (v.now_us - ends < 60e6 ? v.now_us : ends) - begins) : Number(lineSpan) * 1e6;
  if (v.recorded) span = Math.min(span, Math.max(1e6, 1.04 * (ends - begins))); // there is no more to come
  const live = !v.recorded && v.now_us - ends < span * 0.8;
  const to = live ? Math.max(v.now_us, ends) : ends + span * 0.02;
  const shown = bars.filter((b) => b.at_us + b.ms * 1e3 >= to - span);
  if (!changed("line", shown, width(box), span, live ? Math.floor(to / 1e6) : to)) return;
  box.replaceChildren(drawTimeline(shown, to - span, to, live, width(box)));
}

// lanes puts bars into lanes by session, the latest first, and into rows in which none
// lies over another.
function lanes(bars, pixel) {
  const by = new Map();
  for (const b of bars) {
    const k = b.session;
    if (!by.has(k)) by.set(k, { session: b.session, last: 0, calls: [], guesses: [] });
    const lane = by.get(k);
    lane.last = Math.max(lane.last, b.at_us);
    (b.what === "prefetch" ? lane.guesses : lane.calls).push(b);
  }
  const list = [...by.values()].sort((a, b) => b.last - a.last);
  for (const lane of list) for (const part of [lane.calls, lane.guesses]) {
    const free = [];
    part.sort((a, b) => a.at_us - b.at_us);
    for (const b of part) {
      let row = free.findIndex((end) => end <= b.at_us);
      if (row < 0) row = free.length < MOST_ROWS ? free.length : free.indexOf(Math.min(...free));
      free[row] = b.at_us + Math.max(b.ms * 1e3, 10 * pixel) + pixel;
      b.row = row;
    }
    part.rows = Math.max(1, free.length);
  }
  return list;
}

const spot = (b, seq) => [b.session, seq].join("\n");

function drawTimeline(bars, from, to, live, w) {
  const bottom = 40, callH = 11, guessH = 8, pad = 6, title = 17;
  const all = lanes(bars, (to - from) / w), list = all.slice(0, MOST_LANES);
  const h = list.reduce((sum, l) => sum + title + 2 * pad + l.calls.rows * (callH + 2) + 4 + l.guesses.rows * (guessH + 2) + 8, 4) + bottom;
  const x = (us) => ((us - from) / (to - from)) * (w - 8);
  const out = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": sumUpLine(bars, all.length) });
  const spots = new Map(), threads = svg("g"), marks = svg("g");
  let y = 4;
  for (const lane of list) {
    const high = 2 * pad + lane.calls.rows * (callH + 2) + 4 + lane.guesses.rows * (guessH + 2);
    out.append(svg("text", { class: "name", x: 0, y: y + 11 }, fits("Session " + clean(lane.session, 40), w - 160)),
      svg("text", { x: w, y: y + 11, "text-anchor": "end" }, `${plural(lane.calls.length, "call")}, ${plural(lane.guesses.length, "prefetch", "prefetches")}`),
      svg("rect", { class: "lane", x: 0, y: y + title, width: w, height: high, rx: 6 }));
    for (const [part, above, step] of [[lane.calls, y + title + pad, callH + 2], [lane.guesses, y + title + pad + lane.calls.rows * (callH + 2) + 4, guessH + 2]]) {
      for (const b of part) {
        const left = Math.max(0, x(b.at_us)), right = x(b.at_us + b.ms * 1e3), middle = above + b.row * step + (step - 2) / 2;
        spots.set(spot(b, b.seq), { left, right: Math.max(left + 3, right), y: middle });
        const m = mark(kind(b), left, middle, right - left, step - 2);
        m.append(svg("title", null, `${clock(b.at_us)} ${b.what === "prefetch" ? "prefetch" : "call"} of ${clean(b.tool)}: ${how(b)}, ${took(b.ms)}${b.hidden_ms > 0 ? ", " + took(b.hidden_ms) + " hidden" : ""}`));
        marks.append(m);
      }
    }
    y += title + high + 8;
  }
  for (const b of bars) {
    const a = b.use_of && spots.get(spot(b, b.use_of)), c = spots.get(spot(b, b.seq));
    if (a && c) threads.append(svg("path", { class: "thread", d: `M${round(a.right)} ${a.y}C${round(a.right + 4)} ${round(c.y + 6)} ${round(c.left + 3)} ${round(a.y - 4)} ${round(c.left + 5)} ${round(c.y + 4)}` }));
  }
  out.append(threads, marks);
  axis(out, from, to, live, w, y, h);
  if (all.length > list.length) out.append(svg("text", { x: 0, y: h - 5 }, `and ${plural(all.length - list.length, "session")} more`));
  return out;
}

function axis(out, from, to, live, w, y, h) {
  const { list, form } = ticks(from, to, Math.max(2, Math.floor(w / 110)));
  out.append(svg("path", { class: "axis", d: `M0 ${y}H${w}` }));
  for (const us of list) {
    const x = round(((us - from) / (to - from)) * (w - 8));
    if (x < 24 || x > w - (live ? 64 : 34)) continue;
    out.append(svg("path", { class: "axis", d: `M${x} ${y}v4` }), svg("text", { x, y: y + 16, "text-anchor": "middle" }, form.format(us / 1000)));
  }
  if (live) out.append(svg("text", { x: w, y: y + 16, "text-anchor": "end" }, "now"));
  out.append(svg("text", { x: w / 2, y: h - 5, "text-anchor": "middle" }, "Time of day"));
}

function sumUpLine(bars, sessions) {
  const n = (f) => count(bars.filter(f).length);
  return `Timeline of ${plural(sessions, "session")}: ${n((b) => b.what !== "prefetch")} calls, of which ${n((b) => kind(b) === "ahead")} were answered ahead; ${n((b) => b.what === "prefetch")} prefetches, of which ${n((b) => b.how === "wasted" && b.what === "prefetch")} were wasted. The table below has the last of them.`;
}

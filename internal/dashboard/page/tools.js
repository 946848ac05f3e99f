// Time by tool.

$("tools-legend").append(...WAITS.map((w) => keyed(w)));

function bars({ part, longest }) {
  const all = part.tool_ms_hidden + part.tool_ms_waited;
  return [el("div", { class: "bars", "aria-hidden": "true" }, waits(part).map((n, i) => {
    const bar = el("span", { class: WAITS[i][0], hidden: !(n > 0) });
    bar.style.width = (100 * n) / longest + "%";
    return bar;
  })), el("span", { class: "off" }, all > 0 ? share(part.tool_ms_hidden / all) + " hidden" : "no waiting")];
}

const hiddenShare = ({ part: p }) => p.tool_ms_hidden / (p.tool_ms_hidden + p.tool_ms_waited || 1);

const drawTools = table($("tools"), {
  caption: "Time hidden and waited by tool", noun: "tools", sort: "Hidden", most: 12,
  columns: [
    { title: "Tool", text: true, cell: (r) => named(r.name), value: (r) => r.name },
    { title: "Hidden and waited", class: "wide bare", cell: bars, value: (r) => r.part.tool_ms_hidden + r.part.tool_ms_waited },
    { title: "Hidden", num: true, cell: (r) => took(r.part.tool_ms_hidden), value: (r) => r.part.tool_ms_hidden },
    { title: "Waited", num: true, cell: (r) => took(r.part.tool_ms_waited), value: (r) => r.part.tool_ms_waited },
    { title: "Share hidden", num: true, class: "rest", cell: (r) => share(hiddenShare(r)), value: hiddenShare },
    { title: "Calls", num: true, cell: (r) => count(r.part.calls), value: (r) => r.part.calls },
    { title: "Prefetches", num: true, cell: (r) => count(r.part.prefetch.issued), value: (r) => r.part.prefetch.issued },
    { title: "Used", num: true, cell: (r) => count(r.part.prefetch.used), value: (r) => r.part.prefetch.used },
    { title: "Accuracy", num: true, class: "rest", cell: (r) => (r.part.prefetch.issued > 0 ? share(r.part.prefetch.accuracy) : "–"), value: (r) => r.part.prefetch.accuracy },
    { title: "Median fetch", num: true, class: "rest", cell: (r) => (r.part.upstream_ms.n > 0 ? took(r.part.upstream_ms.p50) : "–"), value: (r) => r.part.upstream_ms.p50 },
    { title: "Errors", num: true, class: "rest", cell: (r) => count(r.part.errors), value: (r) => r.part.errors },
  ],
});

function showTools(s) {
  const tools = Object.entries(s.tools || {});
  // In ms. Each row has it, so that the rows are drawn again when the time of a tool not shown grows.
  const longest = Math.max(1, ...tools.map(([, p]) => p.tool_ms_hidden + p.tool_ms_waited));
  const rows = tools.map(([name, part]) => ({ name, part, longest }));
  $("tools-legend").hidden = rows.length === 0;
  drawTools(rows, empty("No tool calls yet.", "Waiting times appear here after the first tool call through mcpschedd. If there were calls, check that the client starts mcpschedd and not the server itself."));
}

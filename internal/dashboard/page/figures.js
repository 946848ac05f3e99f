// Every numeric metric with its meaning.

const figure = (m, n) => (m.unit === "ms" ? took(n) : m.unit === "share" ? share(n) : Number.isInteger(n) ? count(n) : short.format(n));

const drawFigures = table($("figures"), {
  caption: "Every figure and its meaning", noun: "figures", most: 100,
  columns: [
    { title: "Name", text: true, cell: (m) => el("code", null, m.name) },
    { title: "Value", num: true, cell: (m) => figure(m, m.value) },
    { title: "Meaning", class: "text", cell: (m) => m.help },
  ],
});

function showFigures(stats) {
  const valued = WORDS.metrics.map((m) => ({ ...m, value: m.name.split(".").reduce((v, name) => v?.[name], stats) }));
  drawFigures(valued.filter((m) => typeof m.value === "number"));
}

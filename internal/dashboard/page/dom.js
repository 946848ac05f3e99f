// DOM elements. Text is only ever inserted as text nodes.

const $ = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== ""));
  return node;
}

const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// named shows a name from a server or a client, isolated from the direction of the text
// around it.
const named = (name, most) => {
  const shown = clean(name, most) || "(no name)";
  const whole = clean(name, 400) || shown;
  return el("bdi", whole !== shown ? { title: whole } : null, breakable(shown));
};

// breakable allows line breaks in a long name after its separators.
const breakable = (text) => text.split(/(?<=[/_.:-])(?=[^/_.:-])/u).flatMap((word, i) => (i ? [el("wbr"), word] : [word]));

// measured returns the width of a text in a chart, in pixels.
const pen = document.createElement("canvas").getContext("2d");
function measured(text, font) {
  pen.font = font + " " + getComputedStyle(document.body).fontFamily;
  return pen.measureText(text).width;
}

// fits cuts a text to a width in pixels, in the font of names in charts.
function fits(text, pixels) {
  if (measured(text, "600 12px") <= pixels) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && measured(letters.join("") + "…", "600 12px") > pixels) letters.pop();
  return letters.join("") + "…";
}

// say sets a text only if it differs, so that screen readers do not repeat it and a selection
// survives.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// changed reports whether a value differs from the last one of that name.
const seen = new Map();
function changed(name, ...value) {
  const now = JSON.stringify(value);
  if (seen.get(name) === now) return false;
  seen.set(name, now);
  return true;
}

// empty shows that there is no data, and why.
const empty = (what, why) => el("p", { class: "empty" }, el("strong", null, what), why);

// width returns the width available to a chart, in pixels.
const width = (box) => Math.max(240, Math.round(box.clientWidth) || 600);

// round rounds pixels to one decimal.
const round = (n) => Math.round(n * 10) / 10;

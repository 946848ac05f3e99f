// Elements. Text goes onto the page as text and in no other way.

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

// named is a name given by a server or a client: apart from the text around it, whichever way
// it is written.
const named = (name, most) => {
  const shown = clean(name, most) || "(no name)";
  const whole = clean(name, 400) || shown;
  return el("bdi", whole !== shown ? { title: whole } : null, breakable(shown));
};

// breakable lets a long name go on in the next line where one of its words ends.
const breakable = (text) => text.split(/(?<=[/_.:-])(?=[^/_.:-])/u).flatMap((word, i) => (i ? [el("wbr"), word] : [word]));

// measured is how wide a text is in a chart, in pixels.
const pen = document.createElement("canvas").getContext("2d");
function measured(text, font) {
  pen.font = font + " " + getComputedStyle(document.body).fontFamily;
  return pen.measureText(text).width;
}

// fits is a text cut to a number of pixels, in the font of the names in charts.
function fits(text, pixels) {
  if (measured(text, "600 12px") <= pixels) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && measured(letters.join("") + "…", "600 12px") > pixels) letters.pop();
  return letters.join("") + "…";
}

// ticks are round times between two, at most so many.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
function ticks(from, to, most) {
  const span = (to - from) / 1e6;
  const step = STEPS.find((s) => span / s <= most) || 86400 * Math.ceil(span / 86400 / most);
  const zone = new Date(to / 1000).getTimezoneOffset() * 60;
  const out = [];
  for (let s = Math.ceil((from / 1e6 - zone) / step) * step; s + zone <= to / 1e6; s += step) out.push((s + zone) * 1e6);
  return { list: out, form: step < 60 ? clockOf : step < 43200 && span < 86400 ? minuteOf : dayOf };
}

// say changes a text only if it is another: what stays is not read out again, and
// what is selected stays selected.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// changed reports whether a value is another than the last one of that name.
const seen = new Map();
function changed(name, ...value) {
  const now = JSON.stringify(value);
  if (seen.get(name) === now) return false;
  seen.set(name, now);
  return true;
}

// keep makes the children of parent those of items, in their order. A child stays the
// same element as long as its item's key is there: what is open stays open.
function keep(parent, items, key, make, update) {
  const have = new Map(Array.from(parent.children, (c) => [c.dataset.key, c]));
  let at = null;
  for (const item of items) {
    const k = key(item);
    let child = have.get(k);
    if (child) have.delete(k);
    else {
      child = make(item);
      child.dataset.key = k;
    }
    if (update) update(child, item);
    const next = at ? at.nextElementSibling : parent.firstElementChild;
    if (next !== child) parent.insertBefore(child, next);
    at = child;
  }
  for (const child of have.values()) child.remove();
}

// place puts a node where it belongs, or takes it away. One that is there is not touched: it
// would lose the focus.
function place(node, parent, wanted, before = null) {
  if (!wanted) node.remove();
  else if (node.parentNode !== parent) parent.insertBefore(node, before);
}

// empty says that there is nothing to show, and why that may be.
const empty = (what, why) => el("p", { class: "empty" }, el("strong", null, what), why);

// choice is a row of radio buttons; picked is told of each new one.
function choice(box, name, options, picked) {
  for (const [value, text, checked] of options) {
    const input = el("input", { type: "radio", name, value, checked });
    input.addEventListener("change", () => picked(value));
    box.append(el("label", null, input, el("span", null, text)));
  }
}

// width is how much room a chart has, in pixels.
const width = (box) => Math.max(240, Math.round(box.clientWidth) || 600);

// round is a number of pixels as it is written.
const round = (n) => Math.round(n * 10) / 10;

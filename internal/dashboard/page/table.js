// Tables that can be sorted. In a narrow window each row is a block with its cells below each
// other.

const narrow = matchMedia("(max-width: 680px)"); // as in style.css

// table returns a function that shows rows in box. A column has a title, a cell function
// (row → text or elements), and a value if it is sortable.
function table(box, { caption, columns, sort, most = 30, noun = "rows" }) {
  let rows = [], by = sort, all = false;
  let down = !columns.some((c) => c.title === sort && c.text); // names sort ascending, figures descending
  const body = el("tbody", { role: "rowgroup" });
  const heads = columns.map((c) => el("th", { scope: "col", role: "columnheader", class: c.num && "num" }, c.value ? el("button", { type: "button" }, c.title) : c.title));
  // Explicit roles, because a narrow window's layout removes the implicit ones. The region can be
  // focused, so that it can be scrolled by keyboard.
  const region = el("div", { class: "scroll", role: "region", tabindex: 0, "aria-label": caption + ", table" },
    el("table", { role: "table" }, el("caption", { class: "off" }, caption), el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)), body));
  const more = el("button", { type: "button" });
  const shown = el("div", { class: "table" }, region, more);
  more.addEventListener("click", () => { all = !all; draw(); });
  columns.forEach((c, i) => c.value && heads[i].firstChild.addEventListener("click", () => {
    down = by === c.title ? !down : !c.text;
    by = c.title;
    draw();
  }));

  function cells(row) {
    return columns.map((c, i) => (i === 0 ? el("th", { scope: "row", role: "rowheader" }, c.cell(row))
      : el("td", { role: "cell", "data-title": c.title, class: [c.num ? "num" : "", c.class || ""].join(" ") }, c.cell(row))));
  }

  function draw() {
    const column = columns.find((c) => c.title === by), sign = down ? -1 : 1, room = narrow.matches ? Math.min(most, 6) : most;
    const sorted = column ? rows.toSorted((a, b) => (column.value(a) < column.value(b) ? -sign : column.value(a) > column.value(b) ? sign : 0)) : rows;
    columns.forEach((c, i) => c.value && heads[i].setAttribute("aria-sort", c.title !== by ? "none" : down ? "descending" : "ascending"));
    const list = all ? sorted : sorted.slice(0, room);
    if (changed(caption, list)) body.replaceChildren(...list.map((row) => el("tr", { role: "row" }, cells(row))));
    say(more, all ? "Show fewer" : `Show all ${count(rows.length)} ${noun}`);
    more.hidden = rows.length <= room;
  }

  return (next, nothing) => {
    rows = next;
    if (rows.length === 0 && nothing) {
      if (!box.firstElementChild || !box.firstElementChild.isEqualNode(nothing)) box.replaceChildren(nothing);
      return;
    }
    if (shown.parentNode !== box) box.replaceChildren(shown);
    draw();
  };
}

// pictureOr shows a picture with its table folded below, or the table alone if there is no
// picture.
function pictureOr(name, picture) {
  const folded = $(name + "-more"), list = $(name + "-table");
  folded.hidden = !picture;
  if ($(name + "-legend")) $(name + "-legend").hidden = !picture;
  if (picture) {
    $(name).replaceChildren(picture);
    if (list.parentNode !== folded) folded.append(list);
  } else if (list.parentNode !== $(name) || $(name).children.length > 1) $(name).replaceChildren(list);
}

// Tables whose elements are updated in place. In a narrow window each row is a block with its
// cells below each other.

const narrow = matchMedia("(max-width: 680px)"); // as in style.css
const regions = new Set();

// A region that overflows can be focused with Tab, so that it can be scrolled by keyboard.
function reach() {
  for (const r of regions) {
    if (r.scrollWidth > r.clientWidth + 1) r.tabIndex = 0;
    else if (r.hasAttribute("tabindex") && r !== document.activeElement) r.removeAttribute("tabindex");
  }
}

// table returns a function that shows rows in box. A column has a title, a cell function
// (row → text or element) or a draw function (updates a cell), and a value if it is sortable.
function table(box, { caption, columns, key, sort, most = 30, noun = "rows" }) {
  let rows = [], by = sort, all = false;
  let down = !columns.some((c) => c.title === sort && c.text); // names sort ascending, figures descending
  const head = el("tr", { role: "row" }), body = el("tbody", { role: "rowgroup" });
  // Explicit roles, because a narrow window's layout removes the implicit ones.
  const region = el("div", { class: "scroll", role: "region", "aria-label": caption + ", table" },
    el("table", { role: "table" }, el("caption", { class: "off" }, caption), el("thead", { role: "rowgroup" }, head), body));
  const more = el("button", { type: "button" });
  const shown = el("div", { class: "table" }, region);
  more.addEventListener("click", () => { all = !all; draw(); });

  for (const c of columns) {
    const th = el("th", { scope: "col", role: "columnheader", class: c.num ? "num" : undefined });
    if (c.value) {
      const button = el("button", { type: "button" }, c.title);
      button.addEventListener("click", () => {
        down = by === c.title ? !down : !c.text;
        by = c.title;
        draw();
      });
      th.append(button);
    } else th.append(c.title);
    c.th = th;
    head.append(th);
  }

  function make() {
    return el("tr", { role: "row" }, columns.map((c, i) => (i === 0 ? el("th", { scope: "row", role: "rowheader" }) : el("td", { role: "cell", "data-title": c.title, class: [c.num ? "num" : "", c.class || ""].join(" ") }))));
  }

  function update(tr, row) {
    columns.forEach((c, i) => {
      const cell = tr.children[i];
      if (c.draw) return c.draw(cell, row);
      const content = c.cell(row);
      if (typeof content === "string") return say(cell, content);
      if (cell.textContent !== content.textContent || cell.children.length === 0) cell.replaceChildren(content);
    });
  }

  function draw() {
    const column = columns.find((c) => c.title === by);
    const sorted = rows.slice();
    if (column) {
      const sign = down ? -1 : 1;
      sorted.sort((a, b) => {
        const x = column.value(a), y = column.value(b);
        return (x < y ? -sign : x > y ? sign : 0) || (key(a) < key(b) ? -1 : 1);
      });
    }
    for (const c of columns) if (c.value) c.th.setAttribute("aria-sort", c.title !== by ? "none" : down ? "descending" : "ascending");
    const room = narrow.matches ? Math.min(most, 6) : most;
    keep(body, all ? sorted : sorted.slice(0, room), key, make, update);
    say(more, all ? "Show fewer" : `Show all ${count(rows.length)} ${noun}`);
    place(more, shown, rows.length > room);
    reach();
  }

  return (next, nothing) => {
    rows = next;
    if (rows.length === 0 && nothing) {
      if (!box.firstElementChild || !box.firstElementChild.isEqualNode(nothing)) box.replaceChildren(nothing);
      return;
    }
    if (shown.parentNode !== box) box.replaceChildren(shown);
    regions.add(region);
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

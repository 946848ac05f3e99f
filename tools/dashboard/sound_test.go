//go:build browser

package dashboard_test

import (
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
)

// sound checks what must hold for the page with any view.
func (p *tab) sound() {
	p.t.Helper()
	ask[bool](p, `document.querySelectorAll("details").forEach((d) => { d.open = true; }), new Promise((then) => setTimeout(then, 200, true))`) // folded parts are drawn then
	for name, script := range map[string]string{"overflow": overflow, "contrast": contrast, "structure": structure, "labels": labels} {
		for _, fault := range p.found(script) {
			p.t.Errorf("%s: %s", name, fault)
		}
	}
	p.named()
	p.quiet()
}

// overflow: the page is as wide as its window, and wider parts can be scrolled.
const overflow = `
	const out = [], wide = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth > wide) out.push("the page is " + document.documentElement.scrollWidth + " wide, its window " + wide);
	for (const e of document.body.querySelectorAll("*")) {
		if (!e.checkVisibility() || e.closest(".off, .patterns, .skip, svg")) continue;
		const r = e.getBoundingClientRect();
		const region = e.closest(".scroll");
		if (!region && r.width > 0 && (r.right > wide + 1 || r.left < -1)) out.push(e.tagName + "." + e.className + " reaches from " + r.left + " to " + r.right);
		if (region === e && e.scrollWidth > e.clientWidth + 1 && e.tabIndex !== 0) out.push("a table that scrolls cannot be reached: " + e.getAttribute("aria-label"));
	}
	for (const s of document.querySelectorAll(".chart svg")) for (const e of s.querySelectorAll("text, rect.node")) {
		const r = e.getBoundingClientRect(), box = s.getBoundingClientRect();
		if (r.left < box.left - 2 || r.right > box.right + 2 || r.bottom > box.bottom + 2) out.push("in " + s.parentNode.id + " " + e.textContent + " reaches out of the picture");
	}
	return out;`

// labels of edges cover neither nodes nor each other.
const labels = `
	const out = [], box = (e) => e.getBoundingClientRect();
	const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
	const all = Array.from(document.querySelectorAll("#graph text.p")), nodes = Array.from(document.querySelectorAll("#graph rect.node"));
	for (const [i, l] of all.entries()) {
		for (const n of nodes) if (over(box(l), box(n))) out.push(l.textContent + " covers " + n.parentNode.textContent.slice(0, 60));
		for (const m of all.slice(i + 1)) if (over(box(l), box(m))) out.push(l.textContent + " covers " + m.textContent);
	}
	const edges = document.querySelectorAll("#graph path.edge-line").length;
	if (all.length < 0.8 * edges) out.push("only " + all.length + " of " + edges + " edges have a label");
	return out;`

// contrast of every text with its actual background, computed as in WCAG 2.2.
const contrast = `
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1]; };
	const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
	const bright = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (e) => {
		const layers = [];
		for (let at = e; at; at = at.parentElement) {
			const c = parse(getComputedStyle(at).backgroundColor);
			if (c[3] > 0) layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reverse().reduce((under, c) => over(c, under), [255, 255, 255, 1]);
	};
	const drawn = (text) => { // of a text in a picture: the last shape that was filled below its middle
		const svg = text.ownerSVGElement, r = text.getBoundingClientRect(), x = r.left + r.width / 2, y = r.top + r.height / 2;
		let color = behind(svg);
		for (const s of svg.querySelectorAll("rect")) {
			if (!(s.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
			const b = s.getBoundingClientRect(), fill = getComputedStyle(s).fill;
			if (fill.startsWith("rgb") && b.left <= x && x <= b.right && b.top <= y && y <= b.bottom) color = over(parse(fill), color);
		}
		return color;
	};
	const out = new Set();
	let texts = 0;
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n = walk.nextNode(); n; n = walk.nextNode()) {
		const e = n.parentElement;
		if (!n.data.trim() || !e.checkVisibility() || e.closest("script, title, .off, .patterns, noscript")) continue;
		texts++;
		const style = getComputedStyle(e), inPicture = e instanceof SVGElement;
		const ground = inPicture ? drawn(e) : behind(e);
		const ink = over(parse(inPicture ? style.fill : style.color), ground);
		const [a, b] = [bright(ink.slice(0, 3)), bright(ground.slice(0, 3))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) out.add(e.tagName + "." + (e.getAttribute("class") || "") + " " + JSON.stringify(n.data.trim().slice(0, 30)) + ": " + ratio.toFixed(2));
	}
	if (texts < 20) out.add("only " + texts + " texts were looked at");
	return [...out];`

// structure: headings in order, tables with captions and scopes, one live region.
const structure = `
	const out = [];
	let before = 0;
	for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
		const level = Number(h.tagName[1]);
		if (level > before + 1) out.push("h" + level + " after h" + before + ": " + h.textContent);
		if (!h.textContent.trim()) out.push("a heading without text");
		before = level;
	}
	if (document.querySelectorAll("h1").length !== 1) out.push("want one h1");
	for (const t of document.querySelectorAll("table")) {
		if (!t.caption || !t.caption.textContent.trim()) out.push("a table without a caption");
		for (const th of t.querySelectorAll("th")) if (!th.scope) out.push("a th without a scope in " + t.caption?.textContent);
		for (const b of t.querySelectorAll("thead button")) if (!b.closest("th").getAttribute("aria-sort")) out.push("a column to sort by that does not say how it is sorted: " + b.textContent);
	}
	for (const s of document.querySelectorAll("svg")) if (s.getAttribute("aria-hidden") !== "true" && (s.getAttribute("role") !== "img" || !s.getAttribute("aria-label"))) out.push("a picture without a name");
	const live = document.querySelectorAll("[aria-live], [role=status], [role=alert], [role=log], output");
	if (document.getElementById("status") && (live.length !== 1 || live[0].id !== "status")) out.push(live.length + " live regions");
	const ids = Array.from(document.querySelectorAll("[id]"), (e) => e.id);
	for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) out.push("twice: id " + id);
	for (const e of document.querySelectorAll("[aria-labelledby]")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) out.push("labelled by nothing: " + e.tagName);
	for (const l of ["main", "header", "footer"]) if (document.getElementById("status") && document.querySelectorAll(l).length !== 1) out.push("want one " + l);
	return out;`

// named: in the accessibility tree every control, picture, table and region has a name.
func (p *tab) named() {
	p.t.Helper()
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		p.t.Fatal(err)
	}
	need := []string{"button", "link", "radio", "textbox", "image", "img", "table", "region", "DisclosureTriangle", "heading", "checkbox", "combobox"}
	seen := make(map[string]int)
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		if !slices.Contains(need, role) {
			continue
		}
		seen[role]++
		if n.Name == nil || strings.Trim(string(n.Name.Value), `" `) == "" {
			p.t.Errorf("accessibility: a %s without a name", role)
		}
	}
	if seen["button"] == 0 || seen["heading"] == 0 {
		p.t.Errorf("accessibility: got %v, want at least a button and a heading", seen)
	}
}

// tabbed moves through the page with Tab, and checks that all controls are reached and that each
// one shows the focus.
func (p *tab) tabbed() {
	p.t.Helper()
	ask[bool](p, `document.querySelectorAll("details.fold").forEach((d) => { d.open = true; }), window.seen = new Set(), new Promise((then) => setTimeout(then, 200, true))`)
	for range 300 {
		if err := chromedp.Do(p.ctx, chromedp.KeyEvent("\t")); err != nil {
			p.t.Fatal(err)
		}
		if over := ask[bool](p, `(() => {
			const e = document.activeElement;
			if (e === document.body || window.seen.has(e)) return true;
			const last = [...window.seen].pop();
			if (last && !(last.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)) window.astray = e.outerHTML.slice(0, 120);
			window.seen.add(e);
			return false;
		})()`); over {
			break
		}
		if bare := ask[string](p, `(() => {
			const e = document.activeElement, shown = e.type === "radio" ? e.nextElementSibling : e, s = getComputedStyle(shown), r = shown.getBoundingClientRect();
			const fine = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2 && r.width > 0 && r.bottom > 0 && r.top < innerHeight;
			return fine ? "" : e.outerHTML.slice(0, 120);
		})()`); bare != "" {
			p.t.Errorf("focus does not show on %s", bare)
		}
	}
	for _, missed := range p.found(`
		return Array.from(document.querySelectorAll("a[href], button, input, summary, select, [tabindex='0']")).filter((e) =>
			e.checkVisibility() && !window.seen.has(e) && !(e.type === "radio" && !e.checked)).map((e) => e.outerHTML.slice(0, 120));`) {
		p.t.Errorf("not reached by Tab: %s", missed)
	}
	if astray := ask[string](p, `window.astray || ""`); astray != "" {
		p.t.Errorf("Tab goes back to %s", astray)
	}
	if n := ask[int](p, `window.seen.size`); n < 12 {
		p.t.Errorf("got %d controls, want more", n)
	}
}

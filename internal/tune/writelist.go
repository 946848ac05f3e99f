package tune

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// elements are those of a decoded list, whichever way it was written.
func elements(list any) ([]any, bool) {
	switch list := list.(type) {
	case []any:
		return list, true
	case []map[string]any:
		all := make([]any, len(list))
		for i, e := range list {
			all[i] = e
		}
		return all, true
	}
	return nil, false
}

// element adds one element to a list, or brings the one up to date that is about the
// same.
func (m *merger) element(p *proposal) error {
	old, _ := elements(lookUp(m.want, p.path))
	if bare := bareName(p.tool); bare != p.path[1] && (m.Alone == nil || m.Alone(p.tool)) {
		more, _ := elements(lookUp(m.want, append([]string{"tools", bare}, p.path[2:]...)))
		for _, e := range more {
			if identity(p.tool, e) == identity(p.tool, p.value) && !sameValue(e, p.value) {
				m.keep(p, "is set under the tool's bare name")
				return nil
			}
		}
	}
	n := m.file.root.at(p.path...)
	if n == nil {
		return m.add(p, p.Value)
	}
	if n.how != asList && n.how != asTables || len(n.items) != len(old) {
		return fmt.Errorf("want a list")
	}
	for i, e := range old {
		if identity(p.tool, e) == identity(p.tool, p.value) {
			return m.replace(n, i, old, p)
		}
	}
	setTree(m.want, p.path, append(slices.Clone(old), p.value))
	if n.how == asTables {
		return m.addTable(n, p)
	}
	return m.addElement(n, p)
}

// replace brings an element up to date.
func (m *merger) replace(n *tomlNode, i int, old []any, p *proposal) error {
	if sameValue(old[i], p.value) {
		return nil
	}
	all := slices.Clone(old)
	all[i] = p.value
	item := n.items[i]
	var comments []extent
	if n.how == asTables {
		comments = append(comments, item.section.comment)
	} else {
		comments = item.line.comments()
	}
	c, ours := m.file.owns(comments, p.sum(old[i]))
	if !ours {
		m.keep(p, "is set by hand")
		return nil
	}
	edits := []textEdit{{c, m.remark(c, p)}}
	if n.how == asList {
		edits = append(edits, textEdit{item.value, p.Value})
	} else {
		members, ok := m.members(item, old[i], p)
		if !ok {
			m.keep(p, "is laid out by hand")
			return nil
		}
		edits = append(edits, members...)
	}
	setTree(m.want, p.path, all)
	return m.change(edits...)
}

// members brings the lines of a [[table]] up to date. A member that is no longer
// proposed is not taken away: ok is false then.
func (m *merger) members(item *tomlNode, old any, p *proposal) (edits []textEdit, ok bool) {
	was, _ := old.(map[string]any)
	now, _ := p.value.(map[string]any)
	for key := range was {
		if _, still := now[key]; !still {
			return nil, false
		}
	}
	end := item.section.end()
	for _, key := range slices.Sorted(maps.Keys(now)) {
		switch at := item.at(key); {
		case sameValue(was[key], now[key]):
		case was[key] == nil:
			edits = append(edits, textEdit{extent{end, end}, m.newline + m.indent(item.section) + toml.Key{key}.String() + " = " + p.member(key)})
		case at == nil || at.value.to == 0:
			return nil, false
		default:
			edits = append(edits, textEdit{at.value, p.member(key)})
		}
	}
	return edits, true
}

// member is the text of a member of the proposed element.
func (p *proposal) member(key string) string {
	for _, m := range p.members() {
		if m[0] == key {
			return m[1]
		}
	}
	return ""
}

// members are those of the proposed element in their order: key and text.
func (p *proposal) members() [][2]string {
	d, err := readFile([]byte("x = " + p.Value))
	if err != nil {
		return nil
	}
	var all [][2]string
	x := d.root.at("x")
	names := slices.SortedFunc(maps.Keys(x.children), func(a, b string) int {
		return x.children[a].value.from - x.children[b].value.from
	})
	for _, key := range names {
		v := x.children[key].value
		all = append(all, [2]string{key, string(d.text[v.from:v.to])})
	}
	return all
}

// addTable adds an element as a [[table]] behind the last one.
func (m *merger) addTable(n *tomlNode, p *proposal) error {
	last := n.items[len(n.items)-1].section
	at := last.end()
	for i := slices.Index(m.file.sections, last) + 1; i < len(m.file.sections); i++ {
		s := m.file.sections[i]
		if len(s.path) <= len(p.path) || !sameKey(s.path[:len(p.path)], p.path) {
			break
		}
		at = s.end()
	}
	lines := []string{"", "", fmt.Sprintf("%-*s %s", markWidth, "[["+n.written+"]]", p.mark())}
	members := p.members()
	if len(members) == 0 { // a bare name
		members = [][2]string{{"tool", p.Value}}
		all, _ := elements(lookUp(m.want, p.path))
		all[len(all)-1] = map[string]any{"tool": p.value}
	}
	for _, member := range members {
		lines = append(lines, toml.Key{member[0]}.String()+" = "+member[1])
	}
	return m.change(textEdit{extent{at, at}, strings.Join(lines, m.newline) + m.last(at)})
}

// addElement adds an element to an array: on a line of its own with its mark, or, in
// braces, behind the last with the mark above.
func (m *merger) addElement(n *tomlNode, p *proposal) error {
	comma, at := "", n.value.from+1
	if len(n.items) > 0 {
		at = n.items[len(n.items)-1].value.to
		after := m.comma(at, n.value.to)
		if after < 0 {
			comma = ","
		} else {
			at = after
		}
	}
	if n.braces != nil {
		space := " "
		if len(n.items) == 0 {
			space = ""
		}
		return m.change(m.markAbove(n.line, p), textEdit{extent{at, at}, comma + space + p.Value})
	}
	start := m.text[n.line.line.from:]
	indent := string(start[:len(start)-len(bytes.TrimLeft(start, " \t"))])
	text := m.newline + indent + "  " + p.Value + ", " + p.mark()
	end := at + len(m.text[at:n.value.to]) - len(bytes.TrimLeft(m.text[at:n.value.to], " \t"))
	switch m.text[end] {
	case '#', '\n', '\r': // behind the comment, if there is one
		end = m.file.lines(extent{end, end}).to
	default: // the bracket
		end = at
		text += m.newline + indent
	}
	return m.change(textEdit{extent{at, at}, comma}, textEdit{extent{end, end}, text})
}

// comma is where the comma ends that follows an element, if one does; else -1.
func (m *merger) comma(from, to int) int {
	for at := from; at < to; at++ {
		switch m.text[at] {
		case ',':
			return at + 1
		case '#':
			n := bytes.IndexByte(m.text[at:to], '\n')
			if n < 0 {
				return -1
			}
			at += n
		case ' ', '\t', '\r', '\n':
		default:
			return -1
		}
	}
	return -1
}

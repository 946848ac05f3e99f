package tune

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// shape is the way in which a file defines a key. It decides how one more key can be
// added below it.
type shape int

const (
	bySection shape = iota // by a [header] line, the root by the file: lines below it
	byHeader               // only in headers of what is inside it
	byDots                 // by dots in the keys of a section
	byBraces               // as an inline table
	asList                 // as an array
	asTables               // by [[header]] lines
	asValue                // as anything else
)

// extent is a part of a file: offsets in bytes.
type extent struct{ from, to int }

// tomlNode is one key of a file, or one element of an array.
type tomlNode struct {
	how      shape
	children map[string]*tomlNode
	written  string       // the key up to here as the header or the line spells it
	section  *tomlSection // whose header, or in which it is defined
	line     *tomlLine    // in which it is defined; the last one, of byDots
	braces   *tomlNode    // inside which it is defined; nil: none
	value    extent       // of byBraces, asList and asValue
	items    []*tomlNode  // of asList and asTables
}

// at is the node of a key below n; nil: there is none.
func (n *tomlNode) at(path ...string) *tomlNode {
	for _, part := range path {
		if n == nil {
			return nil
		}
		n = n.children[part]
	}
	return n
}

// tomlSection is a header and the lines below it.
type tomlSection struct {
	path       []string
	header     extent // the line, without its end
	comment    extent // behind the header
	statements []*tomlLine
}

// end is where the last of its lines ends: further ones are put there.
func (s *tomlSection) end() int {
	if n := len(s.statements); n > 0 {
		return s.statements[n-1].line.to
	}
	return s.header.to
}

// tomlLine is key = value, outside any braces.
type tomlLine struct {
	whole  extent // from the key to the end of the value
	line   extent // its lines, without the end of the last
	inside []extent
	behind extent // its comment
	above  []extent
}

// comments are those that belong to it.
func (s *tomlLine) comments() []extent {
	all := append(slices.Clone(s.above), s.inside...)
	if s.behind.to > 0 {
		all = append(all, s.behind)
	}
	return all
}

// tomlFile is a file, taken apart as far as keys can be added to it. It knows where
// everything stands: whatever is not touched stays as it is, byte for byte.
type tomlFile struct {
	text     []byte // without a byte order mark
	root     *tomlNode
	sections []*tomlSection // the first is that of the root
	comments []extent
}

// readFile takes a file apart, which is known to be valid TOML.
func readFile(text []byte) (*tomlFile, error) {
	d := &tomlFile{text: text, root: &tomlNode{written: ""}}
	here := &tomlSection{}
	d.sections, d.root.section = []*tomlSection{here}, here
	var p unstable.Parser
	p.KeepComments = true
	p.Reset(slices.Clip(text)) // offsets are computed from capacities
	at := d.root
	var above []extent
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Comment {
			above = append(above, d.comment(e))
			continue
		}
		var behind extent
		if next := e.Next(); next != nil && next.Kind == unstable.Comment {
			behind = d.comment(next)
		}
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			here = &tomlSection{comment: behind}
			d.sections = append(d.sections, here)
			at = d.header(here, e)
		case unstable.KeyValue:
			s := &tomlLine{whole: extentOf(e), behind: behind}
			s.line = d.lines(s.whole)
			if n := len(above); n > 0 && bytes.Count(text[above[n-1].to:s.line.from], []byte("\n")) == 1 {
				s.above = above
			}
			here.statements = append(here.statements, s)
			d.keyValue(place{at, here, s, nil}, e)
		}
		above = nil
	}
	return d, p.Error()
}

func extentOf(n *unstable.Node) extent {
	return extent{int(n.Raw.Offset), int(n.Raw.Offset + n.Raw.Length)}
}

// comment notes a comment. The end of its line is not part of it.
func (d *tomlFile) comment(n *unstable.Node) extent {
	c := extentOf(n)
	c.to = c.from + len(bytes.TrimRight(d.text[c.from:c.to], "\r\n"))
	d.comments = append(d.comments, c)
	return c
}

// lines widens an extent to whole lines, without the end of the last.
func (d *tomlFile) lines(s extent) extent {
	s.from = bytes.LastIndexByte(d.text[:s.from], '\n') + 1
	if n := bytes.IndexByte(d.text[s.to:], '\n'); n >= 0 {
		s.to += n
		if s.to > s.from && d.text[s.to-1] == '\r' {
			s.to--
		}
	} else {
		s.to = len(d.text)
	}
	return s
}

// header notes a [table] or [[table]] line and returns what its lines belong to. A
// part that is an array of tables stands for its last element.
func (d *tomlFile) header(s *tomlSection, e *unstable.Node) *tomlNode {
	n, first := d.root, -1
	for it := e.Key(); it.Next(); {
		part := it.Node()
		if first < 0 {
			first = int(part.Raw.Offset)
		}
		key, end := string(part.Data), extentOf(part).to
		s.path, s.header = append(s.path, key), extent{first, end}
		n = n.child(key, tomlNode{how: byHeader, written: string(d.text[first:end]), section: s})
		switch {
		case !it.IsLast():
			if n.how == asTables {
				n = n.items[len(n.items)-1]
			}
		case e.Kind == unstable.ArrayTable:
			n.how, n.section = asTables, s
			n.items = append(n.items, &tomlNode{how: bySection, written: n.written, section: s})
			n = n.items[len(n.items)-1]
		default:
			n.how, n.section = bySection, s
		}
	}
	s.header = d.lines(s.header)
	return n
}

// child is the node of a key right below n, made as given if there is none.
func (n *tomlNode) child(key string, made tomlNode) *tomlNode {
	if c := n.children[key]; c != nil {
		return c
	}
	if n.children == nil {
		n.children = make(map[string]*tomlNode)
	}
	n.children[key] = &made
	return &made
}

// place is where a key or a value stands: below which node, in which section, line and
// braces.
type place struct {
	n       *tomlNode
	section *tomlSection
	line    *tomlLine
	braces  *tomlNode
}

// keyValue notes one key = value.
func (d *tomlFile) keyValue(at place, e *unstable.Node) {
	first, end := -1, 0
	for it := e.Key(); it.Next(); {
		part := it.Node()
		if first < 0 {
			first = int(part.Raw.Offset)
		}
		end = extentOf(part).to
		at.n = at.n.child(string(part.Data), tomlNode{how: byDots, written: string(d.text[first:end]), section: at.section, braces: at.braces})
		at.n.line = at.line
	}
	value := extent{end, extentOf(e).to}
	value.from += len(d.text[end:]) - len(bytes.TrimLeft(d.text[end:], " \t="))
	d.value(at, value, e.Value())
}

// value notes what a key is given.
func (d *tomlFile) value(at place, where extent, v *unstable.Node) {
	n, line := at.n, at.line
	n.how, n.value = asValue, where
	switch v.Kind {
	case unstable.InlineTable:
		n.how = byBraces
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				d.keyValue(place{n, at.section, line, n}, it.Node())
			} else {
				d.inside(line, it.Node())
			}
		}
	case unstable.Array:
		n.how = asList
		from := where.from + 1
		for it := v.Children(); it.Next(); {
			if it.Node().Kind == unstable.Comment {
				d.inside(line, it.Node())
				continue
			}
			item := &tomlNode{section: at.section, line: line, braces: at.braces}
			from = d.skip(from)
			d.value(place{item, at.section, line, at.braces}, extent{from, d.valueEnd(from, it.Node())}, it.Node())
			n.items = append(n.items, item)
			from = item.value.to
		}
	}
}

// inside notes comments that stand inside a value: the first of some is followed by
// the others.
func (d *tomlFile) inside(line *tomlLine, n *unstable.Node) {
	line.inside = append(line.inside, d.comment(n))
	for c := n.Child(); c != nil; c = c.Next() {
		line.inside = append(line.inside, d.comment(c))
	}
}

// skip passes over what may stand between values: blanks, commas and comments.
func (d *tomlFile) skip(at int) int {
	for at < len(d.text) {
		switch d.text[at] {
		case ' ', '\t', '\r', '\n', ',':
			at++
		case '#':
			if n := bytes.IndexByte(d.text[at:], '\n'); n >= 0 {
				at += n
			} else {
				at = len(d.text)
			}
		default:
			return at
		}
	}
	return at
}

// valueEnd is where an element of an array ends that begins at from. The parser says
// it of texts, numbers and pairs, not of what is in brackets.
func (d *tomlFile) valueEnd(from int, v *unstable.Node) int {
	if v.Kind != unstable.InlineTable && v.Kind != unstable.Array {
		return extentOf(v).to
	}
	end := from + 1
	for it := v.Children(); it.Next(); {
		switch c := it.Node(); {
		case c.Kind == unstable.Comment:
		case c.Kind == unstable.KeyValue:
			end = extentOf(c).to
		default:
			end = d.valueEnd(d.skip(end), c)
		}
	}
	return d.skip(end) + 1
}

// textEdit is a change of a file: what stands in an extent gives way to a text.
type textEdit struct {
	extent
	text string
}

// applyEdits makes changes that do not overlap. Those at one place are made in the order
// given.
func applyEdits(text []byte, edits ...textEdit) ([]byte, error) {
	slices.SortStableFunc(edits, func(a, b textEdit) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, e := range edits {
		if e.from < at || e.to < e.from || e.to > len(text) {
			return nil, fmt.Errorf("the changes at byte %d overlap", e.from)
		}
		out = append(append(out, text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, text[at:]...), nil
}

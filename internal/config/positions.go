package config

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxDepth bounds how deep positions are kept. The schema is 5 deep and a
// plan's steps a few more; without a bound a file of 10,000 brackets would keep
// as many keys of as many characters.
const maxDepth = 64

// positions knows where each key of a file was first mentioned. The decoder
// keeps that to itself, so a second parser reads the same bytes.
type positions struct {
	offset map[string]int // key → byte offset of its first mention
	starts []int          // byte offset of each line
	counts map[string]int // key of an array of tables → elements so far
}

// join is a key as messages show it, each part quoted where TOML needs it.
func join(base string, parts ...string) string {
	if len(parts) == 0 {
		return base
	}
	if base == "" {
		return toml.Key(parts).String()
	}
	return base + "." + toml.Key(parts).String()
}

// Key is a key as messages and [Config.Positions] show it.
func Key(parts ...string) string { return join("", parts...) }

// within says whether key is outer or stands inside it.
func within(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// element is the key of an array's i-th element.
func element(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// locate reads the positions of all keys. Its error is where the syntax breaks.
func locate(data []byte) (*positions, *Problem) {
	p := &positions{offset: map[string]int{}, starts: []int{0}, counts: map[string]int{}}
	for i, c := range data {
		if c == '\n' {
			p.starts = append(p.starts, i+1)
		}
	}
	var parser unstable.Parser
	parser.Reset(slices.Clip(data)) // offsets are computed from capacities
	table := ""
	for parser.NextExpression() {
		switch e := parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = p.header(e)
		case unstable.KeyValue:
			p.keyValue(table, e, 1)
		}
	}
	if broken, ok := errors.AsType[*unstable.ParserError](parser.Error()); ok {
		at := int(parser.Range(broken.Highlight).Offset)
		line := p.lineAt(at)
		return p, &Problem{Line: line, Column: at - p.starts[line-1] + 1, Message: broken.Message}
	}
	return p, nil
}

// header notes a [table] or [[table]] line and returns the key it opens. A part
// that is an array of tables stands for its last element.
func (p *positions) header(n *unstable.Node) string {
	key := ""
	for it := n.Key(); it.Next(); {
		part := it.Node()
		at := int(part.Raw.Offset)
		key = join(key, string(part.Data))
		p.note(key, at)
		if n.Kind == unstable.ArrayTable && it.IsLast() {
			p.counts[key]++
		}
		if count := p.counts[key]; count > 0 {
			key = element(key, count-1)
			p.note(key, at)
		}
	}
	return key
}

// keyValue notes one `key = value` line below the key table.
func (p *positions) keyValue(table string, n *unstable.Node, depth int) {
	key, at := table, 0
	for it := n.Key(); it.Next(); {
		at = int(it.Node().Raw.Offset)
		key = join(key, string(it.Node().Data))
		p.note(key, at)
	}
	p.value(key, at, n.Value(), depth)
}

// value notes what stands inside an array or inline table.
func (p *positions) value(key string, at int, n *unstable.Node, depth int) {
	if depth > maxDepth {
		return
	}
	switch n.Kind {
	case unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			p.keyValue(key, it.Node(), depth+1)
		}
	case unstable.Array:
		i := 0
		for it := n.Children(); it.Next(); i++ {
			// A nested array has no range of its own: its first value's line must do.
			for child := it.Node(); child != nil; child = child.Child() {
				if child.Raw.Length > 0 {
					at = int(child.Raw.Offset)
					break
				}
			}
			p.note(element(key, i), at)
			p.value(element(key, i), at, it.Node(), depth+1)
		}
	}
}

func (p *positions) note(key string, at int) {
	if _, ok := p.offset[key]; !ok {
		p.offset[key] = at
	}
}

// alias lets a key stand where another does.
func (p *positions) alias(key, written string) { p.offset[key] = p.at(written) }

func (p *positions) stated(key string) bool {
	_, ok := p.offset[key]
	return ok
}

// at is where the key, or else the nearest thing around it, was mentioned.
func (p *positions) at(key string) int { return p.offset[around(key, p.stated)] }

// around is the key, or else the nearest one around it, that is stated; "" if
// none is.
func around(key string, stated func(string) bool) string {
	for key != "" && !stated(key) {
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return key
}

func (p *positions) lineAt(offset int) int {
	return sort.SearchInts(p.starts, offset+1)
}

func (p *positions) line(key string) int { return p.lineAt(p.at(key)) }

// lines is every key the file states, with its line.
func (p *positions) lines() map[string]int {
	lines := make(map[string]int, len(p.offset))
	for key, at := range p.offset {
		lines[key] = p.lineAt(at)
	}
	return lines
}

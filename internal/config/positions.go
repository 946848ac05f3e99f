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

// positions are the keys that a file states: key → the line of its first mention. The
// decoder keeps that to itself, so a second parser reads the same bytes.
type positions map[string]int

// line is that of the key, or else of the nearest thing around it that is stated.
func (p positions) line(key string) int {
	for key != "" && p[key] == 0 {
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return max(1, p[key])
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

// locator reads the positions of a file's keys.
type locator struct {
	found  positions
	starts []int          // byte offset of each line
	counts map[string]int // key of an array of tables → elements so far
}

// locate reads the positions of all keys. Its error is where the syntax breaks.
func locate(data []byte) (positions, *Problem) {
	l := &locator{found: positions{}, starts: []int{0}, counts: map[string]int{}}
	for i, c := range data {
		if c == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	var parser unstable.Parser
	parser.Reset(slices.Clip(data)) // offsets are computed from capacities
	table := ""
	for parser.NextExpression() {
		switch e := parser.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = l.header(e)
		case unstable.KeyValue:
			l.keyValue(table, e, 1)
		}
	}
	if broken, ok := errors.AsType[*unstable.ParserError](parser.Error()); ok {
		at := int(parser.Range(broken.Highlight).Offset)
		line := l.lineAt(at)
		return nil, &Problem{Line: line, Column: at - l.starts[line-1] + 1, Message: broken.Message}
	}
	return l.found, nil
}

func (l *locator) lineAt(offset int) int { return sort.SearchInts(l.starts, offset+1) }

// note notes a key that is mentioned at an offset.
func (l *locator) note(key string, at int) {
	if l.found[key] == 0 {
		l.found[key] = l.lineAt(at)
	}
}

// header notes a [table] or [[table]] line and returns the key it opens. A part
// that is an array of tables stands for its last element.
func (l *locator) header(n *unstable.Node) string {
	key := ""
	for it := n.Key(); it.Next(); {
		part := it.Node()
		at := int(part.Raw.Offset)
		key = join(key, string(part.Data))
		l.note(key, at)
		if n.Kind == unstable.ArrayTable && it.IsLast() {
			l.counts[key]++
		}
		if count := l.counts[key]; count > 0 {
			key = element(key, count-1)
			l.note(key, at)
		}
	}
	return key
}

// keyValue notes one `key = value` line below the key table.
func (l *locator) keyValue(table string, n *unstable.Node, depth int) {
	key, at := table, 0
	for it := n.Key(); it.Next(); {
		at = int(it.Node().Raw.Offset)
		key = join(key, string(it.Node().Data))
		l.note(key, at)
	}
	l.value(key, at, n.Value(), depth)
}

// value notes what stands inside an array or inline table.
func (l *locator) value(key string, at int, n *unstable.Node, depth int) {
	if depth > maxDepth {
		return
	}
	switch n.Kind {
	case unstable.InlineTable:
		for it := n.Children(); it.Next(); {
			l.keyValue(key, it.Node(), depth+1)
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
			l.note(element(key, i), at)
			l.value(element(key, i), at, it.Node(), depth+1)
		}
	}
}

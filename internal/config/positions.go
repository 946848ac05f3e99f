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

// maxDepth is the deepest nesting with stored positions. The schema has 5 levels, and a
// plan's steps a few more. Without a limit, a file of 10,000 brackets would yield 10,000 keys of
// up to as many bytes.
const maxDepth = 64

// positions maps each key that a file sets to the line on which it first occurs. The decoder does
// not return lines, so a second parser reads the same bytes.
type positions map[string]int

// line returns the line of the key, or of the innermost enclosing key that the file sets, or 1.
func (p positions) line(key string) int {
	for key != "" && p[key] == 0 {
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return max(1, p[key])
}

// problem returns a problem of a key in the file with these positions.
func (p positions) problem(file, key, format string, args ...any) Problem {
	return Problem{File: file, Line: p.line(key), Key: key, Message: fmt.Sprintf(format, args...)}
}

// join appends parts to the key base, quoting each part if TOML requires it.
func join(base string, parts ...string) string {
	if base == "" {
		return toml.Key(parts).String()
	}
	return base + "." + toml.Key(parts).String()
}

// Key returns the parts as one key, in the form of messages and [Config.Positions].
func Key(parts ...string) string { return join("", parts...) }

// within reports whether key is outer or inside outer.
func within(key, outer string) bool {
	rest, ok := strings.CutPrefix(key, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// element returns the key of element i of an array.
func element(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }

// locator collects the positions of a file's keys.
type locator struct {
	found  positions
	starts []int          // byte offset of each line
	counts map[string]int // key of an array of tables → elements so far
}

// locate returns the positions of all keys, or the syntax error.
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
	if syntaxErr, ok := errors.AsType[*unstable.ParserError](parser.Error()); ok {
		at := int(parser.Range(syntaxErr.Highlight).Offset)
		line := l.lineAt(at)
		return nil, &Problem{Line: line, Column: at - l.starts[line-1] + 1, Message: syntaxErr.Message}
	}
	return l.found, nil
}

func (l *locator) lineAt(offset int) int { return sort.SearchInts(l.starts, offset+1) }

// record stores the line of a key that occurs at an offset, unless the key occurred before.
func (l *locator) record(key string, at int) {
	if l.found[key] == 0 {
		l.found[key] = l.lineAt(at)
	}
}

// header records the key of a [table] or [[table]] line and returns it. A part of the key that is
// an array of tables refers to its last element.
func (l *locator) header(n *unstable.Node) string {
	key := ""
	for it := n.Key(); it.Next(); {
		part := it.Node()
		at := int(part.Raw.Offset)
		key = join(key, string(part.Data))
		l.record(key, at)
		if n.Kind == unstable.ArrayTable && it.IsLast() {
			l.counts[key]++
		}
		if count := l.counts[key]; count > 0 {
			key = element(key, count-1)
			l.record(key, at)
		}
	}
	return key
}

// keyValue records the keys of one `key = value` in the table.
func (l *locator) keyValue(table string, n *unstable.Node, depth int) {
	key, at := table, 0
	for it := n.Key(); it.Next(); {
		at = int(it.Node().Raw.Offset)
		key = join(key, string(it.Node().Data))
		l.record(key, at)
	}
	l.value(key, at, n.Value(), depth)
}

// value records the keys inside an array or an inline table.
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
			// The parser gives a nested array no position, so its first value's is used.
			for child := it.Node(); child != nil; child = child.Child() {
				if child.Raw.Length > 0 {
					at = int(child.Raw.Offset)
					break
				}
			}
			l.record(element(key, i), at)
			l.value(element(key, i), at, it.Node(), depth+1)
		}
	}
}

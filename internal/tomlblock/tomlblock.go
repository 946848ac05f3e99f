// Package tomlblock locates the blocks of a TOML file, so that one of them can be changed while
// every other byte stays the same.
package tomlblock

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Block is a table [TABLE.NAME] or a table below it.
type Block struct {
	Name string // NAME
	Own  bool   // whether it is [TABLE.NAME] itself

	// Byte offsets of the comment directly above the header, of the line below the header, and of the
	// end. Blank lines after the last key belong to the block, comments after them do not.
	From, Body, To int

	bools map[string]unstable.Range // key → position of its value, for booleans
}

// Of returns the blocks below a table, in the order of the text. It returns an error if the text is
// not valid TOML, or if an entry is not written as a block.
func Of(text []byte, table ...string) ([]Block, error) {
	text = slices.Clip(text) // the parser computes offsets from capacities
	var parser unstable.Parser
	parser.Reset(text)
	var all []Block
	var under []string // the current header
	open := -1         // the index of the current block; -1 in another table
	value := 0         // the end of the last value below the current header
	end := func(next int) {
		if open >= 0 {
			all[open].To = endOf(text, value, next)
		}
	}
	for parser.NextExpression() {
		e := parser.Expression()
		key, first := keyOf(e)
		switch isKey := e.Kind == unstable.KeyValue; {
		case isKey && open >= 0:
			value = valueEnd(e.Value())
			if len(key) == 1 && e.Value().Kind == unstable.Bool {
				all[open].bools[key[0]] = parser.Range(e.Value().Data)
			}
		case isKey && isWithin(slices.Concat(under, key), table), e.Kind == unstable.ArrayTable && slices.Equal(key, table):
			line := 1 + bytes.Count(text[:first], []byte("\n"))
			return nil, fmt.Errorf("line %d: %q is not written as [%[2]s.NAME] blocks", line, strings.Join(table, "."))
		case !isKey:
			line := lineStart(text, first)
			end(line)
			if under, open, value = key, -1, 0; isWithin(key, table) && len(key) > len(table) {
				open, all = len(all), append(all, Block{
					Name: key[len(table)], Own: len(key) == len(table)+1,
					From: aboveComments(text, line), Body: lineAfter(text, line), bools: make(map[string]unstable.Range),
				})
			}
		}
	}
	end(len(text))
	return all, parser.Error()
}

// Swap returns a text without the blocks below a table with names that take accepts, and with another
// text in place of the first of them, or else behind a blank line at the end. It also returns the
// removed blocks. A nil take accepts none.
func Swap(text []byte, table []string, take func(name string) bool, with string) (out, removed []byte, err error) {
	var blocks []Block
	if take != nil {
		if blocks, err = Of(text, table...); err != nil {
			return nil, nil, err
		}
	}
	end := LineEnd(text)
	if !strings.Contains(with, end) {
		with = strings.ReplaceAll(with, "\n", end)
	}
	at := 0
	for _, b := range blocks {
		if !take(b.Name) {
			continue
		}
		if with != "" && b.To < len(text) && !strings.HasSuffix(with, end+end) {
			with += end
		}
		out = slices.Concat(out, text[at:b.From], []byte(with))
		removed = append(removed, text[b.From:b.To]...)
		at, with = b.To, ""
	}
	out = append(out, text[at:]...)
	if with != "" && len(out) > 0 {
		if out[len(out)-1] != '\n' {
			with = end + with
		}
		with = end + with
	}
	return append(out, with...), removed, nil
}

// Set returns the text with a key of the block set to a value. Only a boolean is replaced; a key that has
// another value must not be set.
func (b Block) Set(text []byte, key, value string) []byte {
	if at, ok := b.bools[key]; ok {
		return slices.Concat(text[:at.Offset], []byte(value), text[at.Offset+at.Length:])
	}
	end := LineEnd(text)
	line := key + " = " + value + end
	if b.Body > 0 && text[b.Body-1] != '\n' {
		line = end + line
	}
	return slices.Concat(text[:b.Body], []byte(line), text[b.Body:])
}

// ListEnd returns the end of the last string in the list that is the value of a key, however the tables
// above it are written. It returns 0 if there is none.
func ListEnd(text []byte, key ...string) (end int) {
	text = slices.Clip(text) // see Of
	var parser unstable.Parser
	parser.Reset(text)
	var find func(under []string, e *unstable.Node)
	find = func(under []string, e *unstable.Node) {
		own, _ := keyOf(e)
		own = slices.Concat(under, own)
		switch value := e.Value(); {
		case slices.Equal(own, key):
			end = valueEnd(value)
		case value.Kind == unstable.InlineTable:
			for it := value.Children(); it.Next(); {
				find(own, it.Node())
			}
		}
	}
	var under []string
	for parser.NextExpression() {
		if e := parser.Expression(); e.Kind == unstable.KeyValue {
			find(under, e)
		} else {
			under, _ = keyOf(e)
		}
	}
	return end
}

// LineEnd returns the line end of a text, "\n" or "\r\n".
func LineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func isWithin(key, table []string) bool {
	return len(key) >= len(table) && slices.Equal(key[:len(table)], table)
}

// keyOf returns the parts of an expression's key, and the offset of the first part.
func keyOf(n *unstable.Node) (key []string, first int) {
	for it := n.Key(); it.Next(); {
		if key == nil {
			first = int(it.Node().Raw.Offset)
		}
		key = append(key, string(it.Node().Data))
	}
	return key, first
}

// valueEnd returns the end of a string, or of the last string in an array or a table: only strings
// can contain lines that look like comments.
func valueEnd(n *unstable.Node) int {
	end := int(n.Raw.Offset + n.Raw.Length)
	for it := n.Children(); it.Next(); {
		end = max(end, valueEnd(it.Node()))
	}
	return end
}

// endOf returns the end of a block before the next header: after its last line that belongs to a value
// or is neither blank nor a comment, and the blank lines that follow.
func endOf(text []byte, value, next int) int {
	end := next
	for {
		above := lineStart(text, end-1)
		if line := bytes.TrimSpace(text[above:end]); above < value || len(line) > 0 && line[0] != '#' {
			break
		}
		end = above
	}
	for end < next && len(bytes.TrimSpace(text[end:lineAfter(text, end)])) == 0 {
		end = lineAfter(text, end)
	}
	return end
}

// aboveComments returns the start of the comments directly above a line.
func aboveComments(text []byte, line int) int {
	for line > 0 {
		above := lineStart(text, line-1)
		if !bytes.HasPrefix(bytes.TrimLeft(text[above:line], " \t"), []byte("#")) {
			break
		}
		line = above
	}
	return line
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

func lineAfter(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

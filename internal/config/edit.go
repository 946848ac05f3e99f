package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"
	"github.com/pelletier/go-toml/v2/unstable"
)

// RemoveUpstream returns a configuration without an upstream, and what was taken out: its
// block, the comment right above that, and nothing else. An upstream that stands in no block
// of its own is an error.
func RemoveUpstream(text []byte, name string) (left, removed []byte, err error) {
	blocks, err := upstreamBlocks(text, name)
	if err != nil {
		return nil, nil, err
	}
	at := 0
	for _, b := range blocks {
		left = append(left, text[at:b.from]...)
		removed = append(removed, text[b.from:b.to]...)
		at = b.to
	}
	return append(left, text[at:]...), removed, nil
}

// EnableUpstream returns a configuration in which an upstream has enabled set so. All else,
// comments included, stays as it is.
func EnableUpstream(text []byte, name string, enabled bool) ([]byte, error) {
	blocks, err := upstreamBlocks(text, name)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.enabled.Length > 0 {
			at := int(b.enabled.Offset)
			return slices.Concat(text[:at], fmt.Append(nil, enabled), text[at+int(b.enabled.Length):]), nil
		}
	}
	i := slices.IndexFunc(blocks, func(b block) bool { return b.own })
	if i < 0 {
		return nil, fmt.Errorf("[upstreams.%s] has no line of its own, only [upstreams.%[1]s.…]: write enabled = %v there", name, enabled)
	}
	line := fmt.Appendf(nil, "enabled = %v%s", enabled, lineEnd(text))
	at := blocks[i].body
	if at > 0 && text[at-1] != '\n' {
		line = append(lineEnd(text), line...)
	}
	return slices.Concat(text[:at], line, text[at:]), nil
}

// lineEnd is how the lines of a text end.
func lineEnd(text []byte) []byte {
	if bytes.Contains(text, []byte("\r\n")) {
		return []byte("\r\n")
	}
	return []byte("\n")
}

// block is one table of an upstream in the text of a configuration.
type block struct {
	from, body, to int            // byte offsets: of the comment right above it, of the line below its header, of its end
	known          int            // and up to which it certainly goes: its last value's
	own            bool           // it is [upstreams.NAME], not a table in that
	enabled        unstable.Range // of the value of upstreams.NAME.enabled; empty: it is not stated here
}

// upstreamBlocks finds the tables of an upstream, in the order of the text.
func upstreamBlocks(text []byte, name string) ([]block, error) {
	text = slices.Clip(text) // the parser computes offsets from capacities
	var parser unstable.Parser
	parser.Reset(text)
	var all []block
	var at *block // the table being read, where it is of the upstream
	elsewhere := false
	header := []string(nil)
	var headers []int // where the lines of all headers begin
	for parser.NextExpression() {
		e := parser.Expression()
		key, raw := keyOf(e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			header = key
			from := lineStart(text, int(raw.Offset))
			headers, at = append(headers, from), nil
			if len(key) >= 2 && key[0] == "upstreams" && key[1] == name {
				all = append(all, block{from: aboveComments(text, from), body: lineAfter(text, from), own: len(key) == 2})
				at = &all[len(all)-1]
			}
		case unstable.KeyValue:
			full := slices.Concat(header, key)
			if at != nil {
				at.known = lastOf(e)
			}
			of := len(full) >= 2 && full[0] == "upstreams" && full[1] == name
			switch {
			case of && at == nil || len(full) == 1 && full[0] == "upstreams":
				elsewhere = true
			case at != nil && slices.Equal(full[2:], []string{"enabled"}) && e.Value().Kind == unstable.Bool:
				at.enabled = parser.Range(e.Value().Data)
			}
		}
	}
	headers = append(headers, len(text))
	for i := range all {
		next := slices.IndexFunc(headers, func(h int) bool { return h >= all[i].body })
		all[i].to = endOf(text, max(all[i].body, all[i].known), headers[next])
	}
	switch err := parser.Error(); {
	case err != nil:
		return nil, errors.New("the configuration has a mistake: mcpschedd check says where")
	case elsewhere:
		return nil, fmt.Errorf("upstream %q does not stand in a block of its own: write it as [%s] first", name, toml.Key{"upstreams", name})
	case len(all) == 0:
		return nil, fmt.Errorf("no upstream %q in the configuration", name)
	}
	return all, nil
}

// keyOf is the key of a line, and where its first part stands.
func keyOf(n *unstable.Node) (key []string, first unstable.Range) {
	for it := n.Key(); it.Next(); {
		if key == nil {
			first = it.Node().Raw
		}
		key = append(key, string(it.Node().Data))
	}
	return key, first
}

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

func lineAfter(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

// lastOf is the end of the last value within a line of which the parser says where it is.
func lastOf(n *unstable.Node) int {
	last := int(n.Raw.Offset + n.Raw.Length)
	for it := n.Children(); it.Next(); {
		last = max(last, lastOf(it.Node()))
	}
	return last
}

// endOf is where a table ends that goes at least to known, and which another follows at
// next. Blank lines behind its last key are its own, comments behind that are not.
func endOf(text []byte, known, next int) int {
	end := next
	for {
		above := lineStart(text, end-1)
		if line := bytes.TrimSpace(text[above:end]); above < known || len(line) > 0 && line[0] != '#' {
			break
		}
		end = above
	}
	for end < next && len(bytes.TrimSpace(text[end:lineAfter(text, end)])) == 0 {
		end = lineAfter(text, end)
	}
	return end
}

// aboveComments is where the comments begin that stand right above a line.
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

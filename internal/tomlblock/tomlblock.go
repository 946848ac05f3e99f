// Package tomlblock finds the blocks of a TOML file, so that one of them can be changed
// without touching another byte.
package tomlblock

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Block is one table of an entry in a table of tables: [TABLE.NAME], or one within that.
type Block struct {
	Name string // of the entry
	Own  bool   // it is [TABLE.NAME] itself

	// Byte offsets: of the comment right above the header, of the line below the header, and
	// of the end. Blank lines behind the last key are the block's, comments behind that not.
	From, Body, To int

	truths map[string]unstable.Range // key → where its value stands, of those that are true or false
}

// Of finds the blocks of a table's entries, in the order of the text. It is an error if the
// text is no TOML, or if an entry is written in another way than by blocks.
func Of(text []byte, table ...string) ([]Block, error) {
	text = slices.Clip(text) // the parser computes offsets from capacities
	var parser unstable.Parser
	parser.Reset(text)
	var all []Block
	var headers []int   // where the lines of all headers begin
	var under []string  // the header that a key stands under
	var at *Block       // the block that is read; nil: another table
	var known = []int{} // per block, up to which byte it certainly goes
	for parser.NextExpression() {
		e := parser.Expression()
		key, first := keyOf(e)
		if e.Kind == unstable.KeyValue {
			switch {
			case at != nil:
				known[len(all)-1] = lastOf(e)
				if len(key) == 1 && e.Value().Kind == unstable.Bool {
					at.truths[key[0]] = parser.Range(e.Value().Data)
				}
			case isWithin(slices.Concat(under, key), table):
				return nil, notBlocks(table)
			}
			continue
		}
		if e.Kind == unstable.ArrayTable && slices.Equal(key, table) {
			return nil, notBlocks(table)
		}
		line := lineStart(text, first)
		headers, under, at = append(headers, line), key, nil
		if isWithin(key, table) && len(key) > len(table) {
			body := lineAfter(text, line)
			all = append(all, Block{
				Name: key[len(table)], Own: len(key) == len(table)+1,
				From: aboveComments(text, line), Body: body, truths: make(map[string]unstable.Range),
			})
			at, known = &all[len(all)-1], append(known, body)
		}
	}
	if err := parser.Error(); err != nil {
		return nil, err
	}
	headers = append(headers, len(text))
	for i := range all {
		next := slices.IndexFunc(headers, func(h int) bool { return h >= all[i].Body })
		all[i].To = endOf(text, known[i], headers[next])
	}
	return all, nil
}

func notBlocks(table []string) error {
	return fmt.Errorf("what stands under %q is not written as [%[1]s.NAME] blocks", strings.Join(table, "."))
}

// SetTruth returns the text with a key of a block set to true or false.
func (b Block) SetTruth(text []byte, key string, value bool) []byte {
	if at, ok := b.truths[key]; ok {
		return slices.Concat(text[:at.Offset], fmt.Append(nil, value), text[at.Offset+at.Length:])
	}
	end := LineEnd(text)
	line := fmt.Sprintf("%s = %v%s", key, value, end)
	if b.Body > 0 && text[b.Body-1] != '\n' {
		line = end + line
	}
	return slices.Concat(text[:b.Body], []byte(line), text[b.Body:])
}

// LineEnd is how the lines of a text end.
func LineEnd(text []byte) string {
	if bytes.Contains(text, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

func isWithin(key, table []string) bool {
	return len(key) >= len(table) && slices.Equal(key[:len(table)], table)
}

// keyOf is the key of a line, and where its first part stands.
func keyOf(n *unstable.Node) (key []string, first int) {
	for it := n.Key(); it.Next(); {
		if key == nil {
			first = int(it.Node().Raw.Offset)
		}
		key = append(key, string(it.Node().Data))
	}
	return key, first
}

// lastOf is the end of the last value within a line of which the parser says where it is.
func lastOf(n *unstable.Node) int {
	last := int(n.Raw.Offset + n.Raw.Length)
	for it := n.Children(); it.Next(); {
		last = max(last, lastOf(it.Node()))
	}
	return last
}

// endOf is where a block ends that goes at least to known, and which another follows at
// next.
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

func lineStart(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

func lineAfter(text []byte, at int) int {
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}

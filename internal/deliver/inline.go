package deliver

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Addition is a prefetched answer that may be added.
type Addition struct {
	Tool      string            // the tool's name at the client
	Arguments string            // a JSON object on one line
	Result    []byte            // the server's answer: a valid JSON text
	Model     *valuemodel.Model // the tool's model; may be nil
}

// maxAnswer is the maximum number of bytes of an answer: counting the tokens of a longer one takes long.
const maxAnswer = 256 << 10

// Inline appends answers to a result, each as text blocks under a heading that names its call,
// and returns the indexes of the added ones. It adds them in order while their tokens fit the
// budget, and skips an answer that does not fit or contains anything but text. Fields that the
// tool's model omits by default are removed from JSON answers, except for groups that a keyword
// names.
//
// If nothing is added or the result is not plain, out is the unchanged result.
func Inline(result []byte, add []Addition, budget int, keywords []string) (out []byte, added []int) {
	if len(add) == 0 || budget <= 0 || !Plain(result) {
		return result, nil
	}
	intent := valuemodel.NewIntent(keywords)
	var blocks []byte
	for i := range add {
		a := &add[i]
		texts, tokens := a.texts(intent), 0
		for _, text := range texts {
			tokens += Tokens([]byte(text))
		}
		if len(texts) == 0 || tokens > budget {
			continue
		}
		budget -= tokens
		added = append(added, i)
		for _, text := range texts {
			blocks = a.appendBlock(blocks, text)
		}
	}
	if len(added) == 0 {
		return result, nil
	}
	return appendContent(result, blocks), added
}

// texts returns the text of each block of an answer, the first with a heading, or nil if the
// answer contains anything that is not text for the model.
func (a *Addition) texts(intent valuemodel.Intent) (texts []string) {
	if len(a.Result) > maxAnswer || !Plain(a.Result) {
		return nil
	}
	fields := newTrimmer(a.Model, intent)
	for block := range jsonrpc.Elements(jsonrpc.Get(a.Result, "content")) {
		text, ok := jsonrpc.String(jsonrpc.Get(block, "text"))
		if jsonrpc.Text(block, "type") != "text" || !ok || !forModel(block) {
			return nil
		}
		texts = append(texts, fields.trim(text))
	}
	if len(texts) == 0 {
		return nil
	}
	heading := "[answer to " + Name(a.Tool, []byte(a.Arguments)) + ", fetched ahead"
	if len(fields.dropped) > 0 {
		heading += "; without " + strings.Join(slices.Compact(slices.Sorted(slices.Values(fields.dropped))), ", ")
	}
	texts[0] = heading + "]\n" + texts[0]
	return texts
}

// forModel reports whether the audience of a block includes the model.
func forModel(block []byte) bool {
	audience := jsonrpc.Get(jsonrpc.Get(block, "annotations"), "audience")
	if audience == nil {
		return true
	}
	for role := range jsonrpc.Elements(audience) {
		if s, _ := jsonrpc.String(role); s == "assistant" {
			return true
		}
	}
	return false
}

func (a *Addition) appendBlock(blocks []byte, text string) []byte {
	if len(blocks) > 0 {
		blocks = append(blocks, ',')
	}
	return fmt.Appendf(blocks, `{"type":"text","text":%s,"annotations":{"audience":["assistant"]},"_meta":{"mcpschedd/inlined":{"tool":%s,"arguments":%s}}}`,
		jsonrpc.AppendString(nil, text), jsonrpc.AppendString(nil, a.Tool), a.Arguments)
}

// maxTrimDepth limits the levels of nesting: each is scanned again by the level around it.
const maxTrimDepth = 32

// trimmer removes fields from JSON answers, at any depth: those with a name that matches a pattern of
// drop and none of keep.
type trimmer struct {
	drop, keep []string // names and globs
	dropped    []string // patterns that matched
}

// newTrimmer returns a trimmer for the field groups that the model omits by default and the
// intent does not name.
func newTrimmer(m *valuemodel.Model, intent valuemodel.Intent) *trimmer {
	t := &trimmer{}
	if m == nil {
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		switch g := m.FieldGroups[name]; {
		case g.DefaultInclude == nil:
		case *g.DefaultInclude || intent.Matches(g):
			t.keep = append(t.keep, g.Fields...)
		default:
			t.drop = append(t.drop, g.Fields...)
		}
	}
	return t
}

// trim returns text without the dropped fields. The remaining bytes keep their order and form.
// Text that is not a JSON object or array is returned unchanged.
func (t *trimmer) trim(text string) string {
	b := bytes.TrimSpace([]byte(text))
	if len(t.drop) == 0 || len(b) == 0 || b[0] != '{' && b[0] != '[' || !jsonrpc.Valid(b) {
		return text
	}
	before := len(t.dropped)
	if b = t.value(b, maxTrimDepth); len(t.dropped) > before {
		return string(b)
	}
	return text
}

// value returns a JSON value, trimmed down to the given number of levels.
func (t *trimmer) value(b []byte, levels int) []byte {
	switch {
	case levels == 0:
	case b[0] == '{':
		return jsonrpc.Rewrite(b, func(m jsonrpc.Member) []byte {
			if t.drops(string(m.Name)) {
				return nil
			}
			return t.value(m.Value, levels-1)
		})
	case b[0] == '[':
		var elements [][]byte
		for e := range jsonrpc.Elements(b) {
			elements = append(elements, t.value(e, levels-1))
		}
		return slices.Concat([]byte("["), bytes.Join(elements, []byte(",")), []byte("]"))
	}
	return b
}

// drops reports whether a field is dropped.
func (t *trimmer) drops(name string) bool {
	match := func(pattern string) bool { return valuemodel.Glob(pattern, name) }
	i := slices.IndexFunc(t.drop, match)
	if i < 0 || slices.ContainsFunc(t.keep, match) {
		return false
	}
	t.dropped = append(t.dropped, t.drop[i])
	return true
}

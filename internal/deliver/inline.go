package deliver

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Addition is an answer that was prefetched and may be shown.
type Addition struct {
	Tool      string            // the tool's name as the client knows it
	Arguments string            // of the call: a JSON object; "" is an empty one
	Result    []byte            // what the server answered: a valid JSON text
	Model     *valuemodel.Model // what is known of the tool; nil: nothing
}

const (
	// bytesPerToken is more than any text worth reading has: what is longer than the
	// budget times this does not fit, and is not counted to find out.
	bytesPerToken = 16
	maxHeading    = 240     // bytes of a call in the line above its answer
	maxAnswer     = 4 << 20 // bytes of an answer that is looked at
)

// Inline adds answers to a result, each as text blocks of its own under a line that
// says which call it answers, and tells which of them are in out, by their indexes.
// They are taken in the order given as long as their tokens stay within the budget;
// one that does not fit is left out, and so is one that holds anything but text. An
// answer in JSON is shown without the fields that the tool's model leaves out by
// default, except those of a group that one of the keywords names.
//
// If nothing fits, and if the result is not plain, out is the result as it is.
func Inline(result []byte, add []Addition, budget int, keywords []string) (out []byte, added []int) {
	if len(add) == 0 || budget <= 0 || !Plain(result) {
		return result, nil
	}
	intent := valuemodel.IntentOf(keywords)
	var blocks []byte
	for i := range add {
		a := &add[i]
		arguments, ok := oneLine(a.Arguments)
		if !ok {
			continue
		}
		texts := a.texts(arguments, intent)
		tokens, ok := within(texts, budget)
		if !ok {
			continue
		}
		budget -= tokens
		added = append(added, i)
		for _, text := range texts {
			blocks = a.appendBlock(blocks, arguments, text)
		}
	}
	if len(added) == 0 {
		return result, nil
	}
	return appendContent(result, blocks), added
}

// oneLine returns arguments as a line, as a message has to be; false if they are
// no object.
func oneLine(arguments string) ([]byte, bool) {
	if arguments == "" {
		arguments = "{}"
	}
	line := []byte(strings.TrimSpace(arguments))
	if len(line) == 0 || line[0] != '{' || !jsonrpc.Valid(line) {
		return nil, false
	}
	jsonrpc.Flatten(line)
	return line, true
}

// within counts the tokens of texts; false if there are none, or more than the
// budget.
func within(texts []string, budget int) (tokens int, ok bool) {
	for _, text := range texts {
		if len(text)/bytesPerToken > budget-tokens {
			return 0, false
		}
		if tokens += Tokens([]byte(text)); tokens > budget {
			return 0, false
		}
	}
	return tokens, len(texts) > 0
}

// texts is what of an answer is shown: a text for each of its blocks, the first of
// them under the heading; none if something in it is not for the model to read.
func (a *Addition) texts(arguments []byte, intent valuemodel.Intent) (texts []string) {
	if len(a.Result) > maxAnswer || !Plain(a.Result) {
		return nil
	}
	fields := newTrimmer(a.Model, intent)
	for block := range jsonrpc.Elements(jsonrpc.Get(a.Result, "content")) {
		kind, _ := jsonrpc.String(jsonrpc.Get(block, "type"))
		text, ok := jsonrpc.String(jsonrpc.Get(block, "text"))
		if kind != "text" || !ok || !forModel(block) {
			return nil
		}
		texts = append(texts, fields.trim(text))
	}
	if len(texts) == 0 {
		return nil
	}
	if a.Model != nil {
		texts = capped(texts, a.Model.Cost.MaxKB)
	}
	heading := "[answer to " + name(a.Tool, arguments, maxHeading) + ", fetched ahead"
	if len(fields.dropped) > 0 {
		heading += "; without " + strings.Join(fields.dropped, ", ")
	}
	texts[0] = heading + "]\n" + texts[0]
	return texts
}

// forModel reports whether a block is not kept from the model by its audience.
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

func (a *Addition) appendBlock(blocks, arguments []byte, text string) []byte {
	if len(blocks) > 0 {
		blocks = append(blocks, ',')
	}
	return fmt.Appendf(blocks, `{"type":"text","text":%s,"annotations":{"audience":["assistant"]},"_meta":{"mcpschedd/inlined":{"tool":%s,"arguments":%s}}}`,
		jsonrpc.AppendString(nil, text), jsonrpc.AppendString(nil, a.Tool), arguments)
}

// capped cuts texts behind the given number of KiB of all of them together, 0 for
// no limit, and says so in a last line.
func capped(texts []string, kb float64) []string {
	left, size := int(min(kb, 1<<20)*1024), 0
	for _, text := range texts {
		size += len(text)
	}
	if left <= 0 || size <= left {
		return texts
	}
	for i, text := range texts {
		if len(text) <= left {
			left -= len(text)
			continue
		}
		texts[i] = fmt.Sprintf("%s\n[… cut at %.3g KB of %.3g]", text[:runeStart(text, left)], kb, float64(size)/1024)
		return texts[:i+1]
	}
	return texts
}

// maxTrimDepth is how many levels of objects and arrays are looked at: each is read
// once more by the level around it.
const maxTrimDepth = 32

// trimmer leaves fields out of answers in JSON.
//
// A pattern is a field's name or a glob of one; with dots it names a field in a
// field. It means every field that ends so, however deep and in how many arrays:
// "user.login" is also items[3].user.login. A field that is also in a group that
// is shown stays.
type trimmer struct {
	drop, keep [][]string // patterns, by the names between their dots
	dropped    []string   // patterns that met a field
	cut        bool       // a field of the present text has been left out
}

// newTrimmer leaves out the groups of fields that are not included by default, except
// those that the intent brings in.
func newTrimmer(m *valuemodel.Model, intent valuemodel.Intent) *trimmer {
	t := &trimmer{}
	if m == nil {
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		g := m.FieldGroups[name]
		if g.DefaultInclude == nil {
			continue
		}
		wanted := *g.DefaultInclude || intent.Names(g)
		for _, field := range g.Fields {
			if pattern := strings.Split(field, "."); wanted {
				t.keep = append(t.keep, pattern)
			} else {
				t.drop = append(t.drop, pattern)
			}
		}
	}
	return t
}

// trim returns text without the fields that are left out. Other members keep their
// bytes and their order. What is no JSON object or array is returned as it is.
func (t *trimmer) trim(text string) string {
	b := bytes.TrimSpace([]byte(text))
	if len(t.drop) == 0 || len(b) == 0 || b[0] != '{' && b[0] != '[' || !jsonrpc.Valid(b) {
		return text
	}
	t.cut = false
	if b = t.value(b, nil, maxTrimDepth); t.cut {
		return string(b)
	}
	return text
}

// value returns a JSON value that the names lead to, without what is left out of
// as many levels as there are left.
func (t *trimmer) value(b []byte, names []string, levels int) []byte {
	switch {
	case levels == 0:
	case b[0] == '{':
		return jsonrpc.Rewrite(b, func(m jsonrpc.Member) []byte {
			inner := append(names, string(m.Name))
			if t.drops(inner) {
				return nil
			}
			return t.value(m.Value, inner, levels-1)
		})
	case b[0] == '[':
		var elements [][]byte
		for e := range jsonrpc.Elements(b) {
			elements = append(elements, t.value(e, names, levels-1))
		}
		return slices.Concat([]byte("["), bytes.Join(elements, []byte(",")), []byte("]"))
	}
	return b
}

// drops reports whether the field that the names lead to is left out.
func (t *trimmer) drops(names []string) bool {
	match := func(pattern []string) bool { return endsIn(names, pattern) }
	i := slices.IndexFunc(t.drop, match)
	if i < 0 || slices.ContainsFunc(t.keep, match) {
		return false
	}
	t.cut = true
	if pattern := strings.Join(t.drop[i], "."); !slices.Contains(t.dropped, pattern) {
		t.dropped = append(t.dropped, pattern)
	}
	return true
}

func endsIn(names, pattern []string) bool {
	if len(pattern) > len(names) {
		return false
	}
	for i, name := range names[len(names)-len(pattern):] {
		// path.Match stops * at slashes, which mean nothing in a name
		ok, err := path.Match(strings.ReplaceAll(pattern[i], "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
		if !ok || err != nil {
			return false
		}
	}
	return true
}

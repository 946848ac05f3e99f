package deliver

import (
	"fmt"
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

package deliver

import (
	"bytes"
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Addition is an answer that was fetched ahead and may be shown.
type Addition struct {
	Tool      string            // the tool's name as the client knows it
	Arguments string            // of the call: a JSON object; "" is an empty one
	Result    []byte            // what the server answered: a valid JSON text
	Model     *valuemodel.Model // what is known of the tool; nil: nothing
}

// bytesPerToken is more than any text worth reading has: what is longer than the
// budget times this does not fit, and is not counted to find out.
const bytesPerToken = 16

const (
	maxHeading = 240     // bytes of a call in the line above its answer
	maxAnswer  = 4 << 20 // bytes of an answer that is looked at
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
		texts, ok := add[i].texts(intent)
		if !ok {
			continue
		}
		tokens, ok := within(texts, budget)
		if !ok {
			continue
		}
		budget -= tokens
		added = append(added, i)
		for _, text := range texts {
			if len(blocks) > 0 {
				blocks = append(blocks, ',')
			}
			blocks = add[i].appendBlock(blocks, text)
		}
	}
	if len(added) == 0 {
		return result, nil
	}
	return appendContent(result, blocks), added
}

// within counts the tokens of texts, as long as they do not go beyond the budget.
func within(texts []string, budget int) (tokens int, ok bool) {
	for _, text := range texts {
		if len(text)/bytesPerToken > budget-tokens {
			return 0, false
		}
		if tokens += Tokens([]byte(text)); tokens > budget {
			return 0, false
		}
	}
	return tokens, true
}

// texts is what of an answer is shown: a text for each of its blocks, the first of
// them under the heading.
func (a *Addition) texts(intent valuemodel.Intent) ([]string, bool) {
	if len(a.Result) > maxAnswer || !Plain(a.Result) || !a.object() {
		return nil, false
	}
	var texts []string
	cut := cutter(a.Model, intent)
	for block := range jsonrpc.Elements(jsonrpc.Get(a.Result, "content")) {
		kind, _ := jsonrpc.String(jsonrpc.Get(block, "type"))
		text, ok := jsonrpc.String(jsonrpc.Get(block, "text"))
		if kind != "text" || !ok || !forModel(block) {
			return nil, false
		}
		texts = append(texts, cut.trim(text))
	}
	if len(texts) == 0 {
		return nil, false
	}
	if a.Model != nil {
		texts = capped(texts, a.Model.Cost.MaxKB)
	}
	texts[0] = a.heading(cut.dropped) + "\n" + texts[0]
	return texts, true
}

// forModel reports whether a block is not kept from the model by its audience.
func forModel(block []byte) bool {
	audience := jsonrpc.Get(jsonrpc.Get(block, "annotations"), "audience")
	if len(audience) == 0 {
		return true
	}
	for role := range jsonrpc.Elements(audience) {
		if s, _ := jsonrpc.String(role); s == "assistant" {
			return true
		}
	}
	return false
}

func (a *Addition) object() bool {
	arguments := a.arguments()
	return jsonrpc.Valid(arguments) && bytes.TrimLeft(arguments, " \t")[0] == '{'
}

// arguments is the call's arguments in one line, as a message has to be.
func (a *Addition) arguments() []byte {
	if a.Arguments == "" {
		return []byte("{}")
	}
	line := []byte(a.Arguments)
	jsonrpc.Flatten(line)
	return line
}

func (a *Addition) heading(dropped []string) string {
	line := "[answer to " + name(a.Tool, a.arguments(), maxHeading) + ", fetched ahead"
	if len(dropped) > 0 {
		line += "; without " + strings.Join(dropped, ", ")
	}
	return line + "]"
}

func (a *Addition) appendBlock(dst []byte, text string) []byte {
	dst = append(dst, `{"type":"text","text":`...)
	dst = jsonrpc.AppendString(dst, text)
	dst = fmt.Appendf(dst, `,"annotations":{"audience":["assistant"],"priority":%g}`, a.priority())
	dst = append(dst, `,"_meta":{"mcpschedd/inlined":{"tool":`...)
	dst = jsonrpc.AppendString(dst, a.Tool)
	dst = append(dst, `,"arguments":`...)
	dst = append(dst, a.arguments()...)
	return append(dst, "}}}"...)
}

// priority is the block's importance, 0 to 1, by the value class of its tool.
func (a *Addition) priority() float64 {
	if a.Model != nil {
		switch a.Model.ValueClass {
		case valuemodel.Critical:
			return 1
		case valuemodel.Optional, valuemodel.AuditOnly:
			return 0.2
		}
	}
	return 0.5
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
		texts[i] = fmt.Sprintf("%s\n[… cut at %s KB of %s]", text[:runeStart(text, left)], kilobytes(kb), kilobytes(float64(size)/1024))
		return texts[:i+1]
	}
	return texts
}

func kilobytes(kb float64) string {
	if kb < 10 {
		return fmt.Sprintf("%.2g", kb)
	}
	return fmt.Sprintf("%.0f", kb)
}

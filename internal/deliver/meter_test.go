package deliver_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
)

// The tokens of a result are estimated from its bytes, plus 1,600 tokens for each medium.
func TestMeterReadsContent(t *testing.T) {
	for _, c := range []struct {
		name, result string
		bytes, media int
	}{
		{"texts", `{"content":[{"type":"text","text":"ab"},{"type":"text","text":"c\n"}]}`, 9, 0},
		{"beside what is structured", `{"content":[{"type":"text","text":"ab"}],"structuredContent":{"a":1}}`, 4, 0},
		{"only structured", `{"content":[],"structuredContent":{"a":1}}`, 7, 0},
		{"an image and a sound", `{"content":[{"type":"image","data":"AAAA"},{"type":"audio","data":"AAAA"}]}`, 0, 2},
		{"a resource", `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"abc"}}]}`, 5, 0},
		{"a binary resource", `{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"AAAA"}}]}`, 0, 1},
		{"a link", `{"content":[{"uri":"a:b"}]}`, 13, 0},
		{"nothing", `{}`, 0, 0},
		{"null", `null`, 0, 0},
		{"texts that are none", `{"content":[{"text":7},{"text":null},8]}`, 6, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := deliver.NewMeter().Tokens([]byte(c.result)), (c.bytes+3)/4+1600*c.media; got != want {
				t.Errorf("got %d tokens, want %d", got, want)
			}
		})
	}
}

// resultOf returns a result with the given texts.
func resultOf(texts ...string) []byte {
	var blocks [][]byte
	for _, text := range texts {
		blocks = append(blocks, append(jsonrpc.AppendString([]byte(`{"text":`), strings.ToValidUTF8(text, "")), '}'))
	}
	return append(append([]byte(`{"content":[`), bytes.Join(blocks, []byte(","))...), "]}"...)
}

// A sample is a copy. It estimates the whole result within 5 %, wherever its pieces are cut.
func TestMeterLearns(t *testing.T) {
	for name, line := range map[string]string{
		"code": "\tif err := f(\"a\\b\", 'x'); err != nil {\n", "letters": "Größe 東京 🙂 ", "quotes": `"""""`, "backslashes": `\\\\\`, "controls": "\x01\x02\x03", "indented": "            \"key\": [1, 2.5, null],\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(line, 100_000/len(line))
			result := resultOf(text[:1000], text[1000:])
			m := deliver.NewMeter()
			copied := bytes.Clone(result)
			count := m.Learn(result)
			clear(result)
			count()
			got, want := float64(m.Tokens(copied)), float64(deliver.Tokens([]byte(text)))
			if math.Abs(got/want-1) > .05 {
				t.Errorf("got %.0f tokens, want about %.0f", got, want)
			}
		})
	}
}

// A result whose texts are all empty, as of a search without matches, teaches nothing.
func TestMeterEmptyText(t *testing.T) {
	m := deliver.NewMeter()
	for range 10 {
		if count := m.Learn(resultOf("", "")); count != nil {
			count()
		}
	}
	if got := m.Tokens(resultOf(strings.Repeat("x", 398))); got != 100 {
		t.Errorf("got %d tokens, want 100", got)
	}
}

// Once results are of another kind, they are soon estimated by the later ones. Of many results
// at once only some are counted.
func TestMeterForgets(t *testing.T) {
	m := deliver.NewMeter()
	words, dashes := resultOf(strings.Repeat("word ", 100)), resultOf(strings.Repeat("-", 200_000))
	m.Learn(words)()
	before := m.Tokens(dashes)
	for range 12 {
		m.Learn(dashes)()
	}
	if got := m.Tokens(dashes); got > before/2 {
		t.Errorf("got %d tokens of many equal characters, %d before", got, before)
	}
	if m.Learn(resultOf(strings.Repeat("word ", 1<<20))) != nil {
		t.Error("a result of 5 MiB is decoded before its client has it")
	}
	counted := 0
	for range 1000 {
		if m.Learn(words) != nil {
			counted++
		}
	}
	if counted > 100 {
		t.Errorf("%d of 1000 results were chosen to be counted", counted)
	}
}

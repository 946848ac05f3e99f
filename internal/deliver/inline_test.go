package deliver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/valuemodel"
)

const shown = `{"content":[{"type":"text","text":"a list"}]}`

func TestInline(t *testing.T) {
	out, added := deliver.Inline([]byte(shown), []deliver.Addition{
		{Tool: "get_issue", Arguments: "{\"number\": 7}", Result: []byte(`{"content":[{"type":"text","text":"{\"title\":\"ä\",\"n\":1.0}"},{"type":"text","text":"more"}]}`)},
		{Tool: "read", Arguments: "{}", Result: answer("two\nlines")},
	}, 1000, nil)
	want := strings.TrimSuffix(shown, "]}") +
		`,{"type":"text","text":"[answer to get_issue(7), fetched ahead]\n{\"title\":\"ä\",\"n\":1.0}","annotations":{"audience":["assistant"]},"_meta":{"mcpschedd/inlined":{"tool":"get_issue","arguments":{"number": 7}}}}` +
		`,{"type":"text","text":"more","annotations":{"audience":["assistant"]},"_meta":{"mcpschedd/inlined":{"tool":"get_issue","arguments":{"number": 7}}}}` +
		`,{"type":"text","text":"[answer to read(), fetched ahead]\ntwo\nlines","annotations":{"audience":["assistant"]},"_meta":{"mcpschedd/inlined":{"tool":"read","arguments":{}}}}` +
		`]}`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if want := []int{0, 1}; !slices.Equal(added, want) {
		t.Errorf("got %v added, want %v", added, want)
	}
}

func TestInlineLeavesOut(t *testing.T) {
	fine := deliver.Addition{Tool: "read", Arguments: `{"path":"a"}`, Result: answer("body")}
	for _, c := range []struct {
		name   string
		change func(*deliver.Addition)
	}{
		{"structured content", func(a *deliver.Addition) {
			a.Result = []byte(`{"content":[{"type":"text","text":"1"}],"structuredContent":{"n":1}}`)
		}},
		{"an image", func(a *deliver.Addition) {
			a.Result = []byte(`{"content":[{"type":"text","text":"see"},{"type":"image","data":"","mimeType":"image/png"}]}`)
		}},
		{"a resource, even of text", func(a *deliver.Addition) {
			a.Result = []byte(`{"content":[{"type":"resource","resource":{"uri":"x:","text":"x"},"text":"x"}]}`)
		}},
		{"text that is none", func(a *deliver.Addition) { a.Result = []byte(`{"content":[{"type":"text","text":7}]}`) }},
		{"text for the user alone", func(a *deliver.Addition) {
			a.Result = []byte(`{"content":[{"type":"text","text":"x","annotations":{"audience":["user"]}}]}`)
		}},
		{"nothing", func(a *deliver.Addition) { a.Result = []byte(`{"content":[]}`) }},
		{"more than is looked at", func(a *deliver.Addition) {
			a.Result = answer(strings.Repeat("x", 5<<20))
			a.Model = &valuemodel.Model{Layer: valuemodel.Layer{Cost: valuemodel.Cost{MaxKB: 1}}}
		}},
		{"more than the budget", func(a *deliver.Addition) { a.Result = answer(strings.Repeat("word ", 2000)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := fine
			c.change(&bad)
			if out, added := deliver.Inline([]byte(shown), []deliver.Addition{bad}, 1000, nil); string(out) != shown || added != nil {
				t.Errorf("alone: got %v added to %.200s", added, out)
			}
			out, added := deliver.Inline([]byte(shown), []deliver.Addition{bad, fine}, 1000, nil)
			if want := []int{1}; !slices.Equal(added, want) || len(textsAdded(t, out, shown)) != 1 {
				t.Errorf("before an answer that fits: got %v added, want %v", added, want)
			}
		})
	}
}

func TestInlineNotPlain(t *testing.T) {
	fine := []deliver.Addition{{Tool: "read", Arguments: "{}", Result: answer("body")}}
	for _, result := range []string{
		`{"content":[{"type":"text","text":"1"}],"structuredContent":1}`,
		`{}`,
	} {
		if out, added := deliver.Inline([]byte(result), fine, 1000, nil); string(out) != result || added != nil {
			t.Errorf("%s: got %v added: %s", result, added, out)
		}
	}
	for _, budget := range []int{0, -1} {
		if out, added := deliver.Inline([]byte(shown), fine, budget, nil); string(out) != shown || added != nil {
			t.Errorf("budget %d: got %v added: %s", budget, added, out)
		}
	}
}

// The budget limits the exact number of tokens of all added text.
func TestInlineBudget(t *testing.T) {
	var all []deliver.Addition
	for i, words := range []int{300, 3000, 100, 200} {
		all = append(all, deliver.Addition{Tool: "read", Arguments: fmt.Sprintf(`{"n":%d}`, i), Result: answer(strings.Repeat("word ", words))})
	}
	out, added := deliver.Inline([]byte(shown), all, 1000, nil)
	if want := []int{0, 2, 3}; !slices.Equal(added, want) {
		t.Fatalf("got %v added, want %v, as the second does not fit, and those after it do", added, want)
	}
	sum := 0
	for _, text := range textsAdded(t, out, shown) {
		sum += deliver.Tokens([]byte(text))
	}
	if _, added := deliver.Inline([]byte(shown), all, sum, nil); len(added) != 3 {
		t.Errorf("budget %d, exactly enough: got %v added, want three", sum, added)
	}
	if _, added := deliver.Inline([]byte(shown), all, sum-1, nil); !slices.Equal(added, []int{0, 2}) {
		t.Errorf("budget %d, one too few: got %v added, want the first two of them", sum-1, added)
	}
}

// answer returns a result with text blocks.
func answer(texts ...string) []byte {
	type block struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var content []block
	for _, text := range texts {
		content = append(content, block{"text", text})
	}
	b, err := json.Marshal(map[string]any{"content": content})
	if err != nil {
		panic(err)
	}
	return b
}

// textsAdded returns the texts of the blocks added to result.
func textsAdded(t *testing.T, out []byte, result string) []string {
	t.Helper()
	read := func(b []byte) (texts []string) {
		var v struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		for _, block := range v.Content {
			texts = append(texts, block.Text)
		}
		return texts
	}
	return read(out)[len(read([]byte(result))):]
}

package deliver_test

import (
	"testing"

	"mcpschedd/internal/deliver"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		name, result string
		want         bool
	}{
		{"text", `{"content":[{"type":"text","text":"a"}]}`, true},
		{"nothing in it", `{"content":[]}`, true},
		{"unknown members", `{"content":[],"_meta":{"x":1},"later":{}}`, true},
		{"structured", `{"content":[],"structuredContent":{}}`, false},
		{"structured nothing", `{"content":[],"structuredContent":null}`, false},
		{"structured, with an escape", `{"content":[],"structured\u0043ontent":{}}`, false},
		{"two contents", `{"content":[],"content":[]}`, false},
		{"two contents to some", `{"content":[],"Content":[]}`, false},
		{"content that is no list", `{"content":{"type":"text"}}`, false},
		{"no content", `{}`, false},
		{"no object", `[{"content":[]}]`, false},
		{"null", `null`, false},
	} {
		if got := deliver.Plain([]byte(c.result)); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

func TestHint(t *testing.T) {
	const line = `{"type":"text","text":"> [enrichment: pre-fetched Read(src/main.rs), Read(src/lib.rs) in background — call as usual, results served from cache]"}`
	names := []string{
		deliver.Name("Read", []byte(`{"file_path":"src/main.rs"}`)),
		deliver.Name("Read", []byte(`{"file_path":"src/lib.rs"}`)),
	}
	for _, c := range []struct{ name, result, want string }{
		{"behind what is there", `{"content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"text","text":"a"},` + line + `]}`},
		{"alone", `{"content":[]}`, `{"content":[` + line + `]}`},
		{
			"the rest as it was", "{ \"n\": 1e400, \"content\" : [ {\"type\":\"text\" , \"text\":\"\\u00e4\"} ] ,\"_meta\":{ \"b\":1.0,\"a\":2}}",
			"{\"n\": 1e400,\"content\" : [ {\"type\":\"text\" , \"text\":\"\\u00e4\"} ," + line + "],\"_meta\":{ \"b\":1.0,\"a\":2}}",
		},
		{"structured content stays alone", `{"content":[],"structuredContent":{}}`, `{"content":[],"structuredContent":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			result := []byte(c.result)
			if got := string(deliver.Hint(result, names)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if string(result) != c.result {
				t.Errorf("the argument was changed to %s", result)
			}
		})
	}
	if got := string(deliver.Hint([]byte(`{"content":[]}`), nil)); got != `{"content":[]}` {
		t.Errorf("without names: got %s, want nothing added", got)
	}
}

package jsonrpc_test

import (
	"bytes"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

func TestSalvageID(t *testing.T) {
	tests := []struct{ name, head, want string }{
		{"empty", ``, ""},
		{"rubbish", `DEBUG: "id":1,`, ""},
		{"array", `[{"id":1}]`, ""},
		{"whole", `{"jsonrpc":"2.0","id":1,"result":{}}`, "1"},
		{"cut behind", `{"jsonrpc":"2.0","id":"a\"é","result":{"content":[{"type":"te`, `"a\"é"`},
		{"cut before", `{"jsonrpc":"2.0","result":{"content":[{"id":5},`, ""},
		{"cut within", `{"jsonrpc":"2.0","id":12`, ""},
		{"nested only", `{"result":{"id":5,"x":[{"id":6}]},"jsonrpc":"2.0"}`, ""},
		{"wrong UTF-8 in a nested text", "{\"result\":{\"id\":5,\"text\":\"caf\xe9\"},\"id\":1}", "1"},
		{"raw tab and line end in a text", "{\"result\":{\"text\":\"a\tb\r\n\x00\"},\"id\":-1}", "-1"},
		{"bad escapes in a text", `{"result":{"path":"C:\dir\u12\"\\"},"id":1}`, "1"},
		{"bad escape in a key", `{"a\q":1,"id":1}`, "1"},
		{"broken id", "{\"id\":\"\xff\",\"result\":{}}", ""},
		{"quote in a text", `{"result":{"text":"he said "id":5,"},"id":1}`, ""},
		{"missing comma", `{"a":1 "id":1}`, ""},
		{"not closed", `{"result":{"a":[1,2},"id":1}`, ""},
		{"broken behind", `{"id":1,"result":{"a":[1,2}}`, "1"},
		{"twice", `{"id":1,"id":2,"result":{"a`, ""},
		{"null", `{"id":null,"error":{},"a`, ""},
		{"object", `{"id":{},"error":{},"a`, ""},
		{"backslash at the end", `{"id":1,"a":"\`, "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := jsonrpc.SalvageID([]byte(test.head))
			if string(got) != test.want || (got == nil) != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A message that is cut anywhere yields its own id or none.
func FuzzSalvageID(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":123,"result":{"id":5,"text":"\"id\":7,é"}}`), 10)
	f.Add([]byte(`{"result":{"id":5,"text":"\"id\":7,é"},"jsonrpc":"2.0","id":"x"}`), 60)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		m, err := jsonrpc.Parse(raw)
		cut = max(0, min(cut, len(raw)))
		got := jsonrpc.SalvageID(raw[:cut])
		if err == nil && got != nil && !bytes.Equal(got, m.ID) {
			t.Fatalf("%q: got %s, want %s", raw[:cut], got, m.ID)
		}
		if whole := jsonrpc.SalvageID(raw); err == nil && string(m.ID) != "null" &&
			!strings.Contains(string(raw), `\`) && !bytes.Equal(whole, m.ID) {
			t.Fatalf("%q: got %s, want %s", raw, whole, m.ID)
		}
	})
}

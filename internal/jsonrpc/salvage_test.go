package jsonrpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"mcpschedd/internal/jsonrpc"
)

// The id of a malformed message is found where servers and clients write it.
func TestSalvageID(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"rubbish", `DEBUG: "id":1,`, ""},
		{"cut behind", `{"jsonrpc":"2.0","id":"a\"é","result":{"content":[{"type":"te`, `"a\"é"`},
		{"cut before", `{"jsonrpc":"2.0","result":{"content":[{"id":5},`, ""},
		{"cut within", `{"jsonrpc":"2.0","id":12`, ""},
		{"nested only", `{"result":{"id":5,"x":[{"id":6}],},"jsonrpc":"2.0"}`, ""},
		{"wrong UTF-8 in a nested text", "{\"result\":{\"id\":5,\"text\":\"caf\xe9\"},\"id\":1}", "1"},
		{"raw tab and line end in a text", "{\"result\":{\"text\":\"a\tb\r\n\x00\"}, \"id\" : -1 } ", "-1"},
		{"broken id", "{\"id\":\"\xff\",\"result\":{}}", ""},
		{"not a number", `{"id":-,"result":{}}`, ""},
		{"broken behind", `{"id":1,"result":{"a":[1,2}}`, "1"},
		{"null", `{"id":null,"error":{},"a`, ""},
		{"repeated", `{"jsonrpc":"2.0","id":1,"id":2,"method":tru`, ""},
		{"the last brace missing", `{"result":{"text":"x","id":7}`, ""},
		{"an object behind other text", `DEBUG {"text":"x","id":7}`, ""},
	} {
		if m, err := jsonrpc.Parse([]byte(test.raw)); err == nil || string(m.ID) != test.want {
			t.Errorf("%s: got %q, want %q", test.name, m.ID, test.want)
		}
	}
}

// The beginning and the end of a message yield its own id or none.
func FuzzSalvageID(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":123,"result":{"id":5,"text":"\"id\":7,é"}}`), 10)
	f.Add([]byte(`{"result":{"id":5,"text":"\"id\":7,é"},"jsonrpc":"2.0","id":"x"}`), 60)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		m, err := jsonrpc.Parse(raw)
		cut = max(0, min(cut, len(raw)))
		got := (&jsonrpc.MessageTooLong{Head: raw[:cut], Tail: raw[max(cut, len(raw)-256):]}).ID()
		if err == nil && got != nil && !bytes.Equal(got, m.ID) {
			t.Fatalf("%q: got %s, want %s", raw[:cut], got, m.ID)
		}
	})
}

// The TypeScript SDK writes the id after the result.
func TestMessageTooLongID(t *testing.T) {
	pad := strings.Repeat("x", 20_000)
	for _, c := range []struct{ name, line, want string }{
		{"first", `{"jsonrpc":"2.0","id":7,"result":{"text":"` + pad + `"}}`, "7"},
		{"last", `{"result":{"text":"` + pad + `"},"jsonrpc":"2.0","id":7}`, "7"},
		{"last, text and spaces", `{"result":{"text":"` + pad + `"},"jsonrpc":"2.0", "id" : "a b" } `, `"a b"`},
		{"of a nested object", `{"result":{"text":"` + pad + `","id":7}}`, ""},
		{"inside a text", `{"result":{"text":"` + pad + `,\"id\":7}"}}`, ""},
		{"null", `{"result":{"text":"` + pad + `"},"id":null}`, ""},
		{"no object", pad, ""},
	} {
		for _, max := range []int{100, 10_000} {
			t.Run(fmt.Sprintf("%s/%d", c.name, max), func(t *testing.T) {
				r := jsonrpc.NewReader(iotest.OneByteReader(strings.NewReader(c.line+"\nnext\n")), max)
				_, err := r.Next()
				long, ok := errors.AsType[*jsonrpc.MessageTooLong](err)
				if !ok {
					t.Fatalf("got %v, want a *MessageTooLong", err)
				}
				if got := string(long.ID()); got != c.want {
					t.Errorf("got id %s, want %s", got, c.want)
				}
				if line, err := r.Next(); string(line) != "next" || err != nil {
					t.Errorf("behind it: got %q, %v", line, err)
				}
			})
		}
	}
}

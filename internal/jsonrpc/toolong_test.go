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

// The beginning and the end of a message yield its own id or none.
func FuzzMessageTooLong(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":123,"result":{"id":5,"text":"\"id\":7,é"}}`), 10)
	f.Add([]byte(`{"result":{"id":5,"text":"\"id\":7,é"},"jsonrpc":"2.0","id":"x"}`), 60)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		m, err := jsonrpc.Parse(raw)
		cut = max(0, min(cut, len(raw)))
		got := (&jsonrpc.MessageTooLong{Head: raw[:cut], Tail: raw[max(cut, len(raw)-256):]}).Message().ID
		if err == nil && got != nil && !bytes.Equal(got, m.ID) {
			t.Fatalf("%q: got %s, want %s", raw[:cut], got, m.ID)
		}
	})
}

// The TypeScript SDK writes the id after the result.
func TestMessageTooLong(t *testing.T) {
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
				if got := string(long.Message().ID); got != c.want {
					t.Errorf("got id %s, want %s", got, c.want)
				}
				if line, err := r.Next(); string(line) != "next" || err != nil {
					t.Errorf("behind it: got %q, %v", line, err)
				}
			})
		}
	}
}

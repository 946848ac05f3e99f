package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Repair replaces like the WHATWG decoder and preserves the JSON structure.
func FuzzRepair(f *testing.F) {
	for _, seed := range []string{"caf\xe9", "\xf0\x9f\x99\"\xff", `{"a":"` + "\xed\xa0\x80" + `","b":[1,"` + "\xc3" + `"]}`, "[\"\xe2\x28\xa1\\u0041\"]", "\xf4\x90\x80\x80", "\xc2",
		"", `{"text":"Grüße ✓ 日本 🙂"}`, "\ufffd", "caf\xe9", "\xff\xfe\"", "cut \xf0\x9f\x99", "cut \xf0\x9f\x99\"", "overlong \xc0\xaf", "surrogate \xed\xa0\x80", "beyond Unicode \xf4\x90\x80\x80.", "\x80 alone, \xe2\x82 cut",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		repaired := jsonrpc.Repair(b)
		if utf8.Valid(b) {
			if repaired != nil {
				t.Fatalf("%q is valid, got %q", b, repaired)
			}
			return
		}
		if want := whatwg(b); !bytes.Equal(repaired, want) {
			t.Fatalf("%q: got %q, want %q", b, repaired, want)
		}
		// encoding/json accepts any bytes in a string, and the same bytes as Valid elsewhere.
		if got, want := jsonrpc.Valid(repaired), json.Valid(b); got != want {
			t.Fatalf("%q: repaired it is JSON: %v, before: %v", b, got, want)
		}
	})
}

// whatwg decodes according to section 8.1.1 of the Encoding Standard, except that it keeps a
// byte order mark.
func whatwg(b []byte) (out []byte) {
	const replacement = "\ufffd"
	point, seen, needed := rune(0), 0, 0
	lower, upper := byte(0x80), byte(0xbf)
	for i := 0; i < len(b); i++ {
		c := b[i]
		if needed == 0 {
			switch {
			case c <= 0x7f:
				out = append(out, c)
			case 0xc2 <= c && c <= 0xdf:
				needed, point = 1, rune(c&0x1f)
			case 0xe0 <= c && c <= 0xef:
				if c == 0xe0 {
					lower = 0xa0
				} else if c == 0xed {
					upper = 0x9f
				}
				needed, point = 2, rune(c&0xf)
			case 0xf0 <= c && c <= 0xf4:
				if c == 0xf0 {
					lower = 0x90
				} else if c == 0xf4 {
					upper = 0x8f
				}
				needed, point = 3, rune(c&0x7)
			default:
				out = append(out, replacement...)
			}
			continue
		}
		if c < lower || c > upper {
			point, seen, needed, lower, upper = 0, 0, 0, 0x80, 0xbf
			out = append(out, replacement...)
			i-- // read the byte again, as the first of the next sequence
			continue
		}
		lower, upper = 0x80, 0xbf
		point = point<<6 | rune(c&0x3f)
		if seen++; seen == needed {
			out = utf8.AppendRune(out, point)
			point, seen, needed = 0, 0, 0
		}
	}
	if needed > 0 {
		out = append(out, replacement...)
	}
	return out
}

// salvaged returns the id that salvageID finds in the beginning of a message.
func salvaged(head []byte) []byte { return (&jsonrpc.LineTooLong{Head: head}).ID() }

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
		{"quotes in a text", `{"result":{"text":"he said "id":5,"},"id":1}`, "1"},
		{"quote in a text", `{"result":{"text":"he said ",id":5},"id":1}`, ""},
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
			got := salvaged([]byte(test.head))
			if string(got) != test.want || (got == nil) != (test.want == "") {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if m, err := jsonrpc.Parse([]byte(test.head)); err != nil && string(m.ID) != test.want {
				t.Errorf("parsed: got %q, want %q", m.ID, test.want)
			}
		})
	}
}

// A message truncated anywhere yields its own id or none.
func FuzzSalvageID(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":123,"result":{"id":5,"text":"\"id\":7,é"}}`), 10)
	f.Add([]byte(`{"result":{"id":5,"text":"\"id\":7,é"},"jsonrpc":"2.0","id":"x"}`), 60)
	f.Fuzz(func(t *testing.T, raw []byte, cut int) {
		m, err := jsonrpc.Parse(raw)
		cut = max(0, min(cut, len(raw)))
		got := salvaged(raw[:cut])
		if err == nil && got != nil && !bytes.Equal(got, m.ID) {
			t.Fatalf("%q: got %s, want %s", raw[:cut], got, m.ID)
		}
		if whole := salvaged(raw); err == nil && string(m.ID) != "null" &&
			!strings.Contains(string(raw), `\`) && !bytes.Equal(whole, m.ID) {
			t.Fatalf("%q: got %s, want %s", raw, whole, m.ID)
		}
	})
}

// The TypeScript SDK writes the id after the result.
func TestLineTooLongID(t *testing.T) {
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
				long, ok := errors.AsType[*jsonrpc.LineTooLong](err)
				if !ok {
					t.Fatalf("got %v, want a *LineTooLong", err)
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

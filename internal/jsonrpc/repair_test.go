package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

func TestRepair(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		`{"text":"Grüße ✓ 日本 🙂"}`:          "",
		"\ufffd":                           "",
		"caf\xe9":                          "caf\ufffd",
		"\xff\xfe\"":                       "\ufffd\ufffd\"",
		"cut \xf0\x9f\x99":                 "cut \ufffd",
		"cut \xf0\x9f\x99\"":               "cut \ufffd\"",
		"overlong \xc0\xaf":                "overlong \ufffd\ufffd",
		"surrogate \xed\xa0\x80":           "surrogate \ufffd\ufffd\ufffd",
		"beyond Unicode \xf4\x90\x80\x80.": "beyond Unicode \ufffd\ufffd\ufffd\ufffd.",
		"\x80 alone, \xe2\x82 cut":         "\ufffd alone, \ufffd cut",
	} {
		if got := jsonrpc.Repair([]byte(in)); string(got) != want || (got == nil) != utf8.ValidString(in) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// What is repaired is what the WHATWG decoder makes of it, and the same JSON.
func FuzzRepair(f *testing.F) {
	for _, seed := range []string{"caf\xe9", "\xf0\x9f\x99\"\xff", `{"a":"` + "\xed\xa0\x80" + `","b":[1,"` + "\xc3" + `"]}`, "[\"\xe2\x28\xa1\\u0041\"]", "\xf4\x90\x80\x80", "\xc2"} {
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
		// encoding/json takes any bytes in a string, and no others than we elsewhere.
		if got, want := jsonrpc.Valid(repaired), json.Valid(b); got != want {
			t.Fatalf("%q: repaired it is JSON: %v, before: %v", b, got, want)
		}
	})
}

// whatwg decodes as section 8.1.1 of the Encoding Standard says, but for the byte order
// mark, which it leaves.
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
			i-- // it is read again, as the first of the next
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

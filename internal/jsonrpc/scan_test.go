package jsonrpc_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

func validStd(b []byte) bool { return json.Valid(b) && utf8.Valid(b) }

// texts holds valid and almost valid JSON.
var texts = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `nulll`, `True`, `tru e`,
	`0`, `-0`, `-`, `+1`, `01`, `-01`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1E-07`, `1e5.5`, `0x1`, `1 2`, `NaN`, `-Infinity`,
	`""`, `"`, `"a`, `"\"`, `"\\"`, `"\"\\\/\b\f\n\r\t"`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\uABcd"`, `"\ud800"`, `"\udc00\ud800"`, `"\`, `"\u`,
	"\"\t\"", "\"\n\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"",
	`[]`, `[`, `]`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `[1,2]`, "[ \t\r\n1 , [ ] ]", "[1,\v2]", "[1]\x00",
	`{}`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" : {} , "b":[]}`, `{1:2}`, `{"a",1}`, `{"a"::1}`, `[}`, `{]`,
	"\ufeff1", `'a'`, `// 1`,
	strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
	strings.Repeat(`{"a":`, 10000) + "1" + strings.Repeat("}", 10000), strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001),
	strings.Repeat("[", 100000),
}

func TestFault(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,"[{"]}`:           "",
		`{"a":1`:                   "not JSON at byte 6",
		`{"a" {}}`:                 "not JSON at byte 5",
		`[1] x`:                    "not JSON at byte 4",
		strings.Repeat("[", 10001): "nested deeper than 10000 levels",
		" \n":                      "empty",
	} {
		if got := jsonrpc.Fault([]byte(text)); got != want {
			t.Errorf("%.20q: got %q, want %q", text, got, want)
		}
	}
}

// A string scan reads eight bytes at a time: the test puts each significant byte at every
// offset in the word and after its end.
func TestValidStringBytes(t *testing.T) {
	for c := range 256 {
		for before := range 17 {
			for _, after := range []int{0, 1, 7, 8, 20} {
				text := `"` + strings.Repeat("a", before) + string([]byte{byte(c)}) + strings.Repeat("b", after) + `"`
				if got, want := jsonrpc.Valid([]byte(text)), validStd([]byte(text)); got != want {
					t.Errorf("%q: got %v, want %v", text, got, want)
				}
			}
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e+10,"x\u00e9\\\"é世😀",true,false,null,{}],"b":{"c":[]}}`,
		`"0123456789\/abcdef"`, "\"\xed\xa0\x80\"", "\"\xc3\"", "\xc3\xa9", "{\"\xff\":1}", "[1,\r\n\t 2 ]", `-0.0e-0`, "\"\x80\"", `"\ud800\u0041"`,
	} {
		f.Add([]byte(seed))
	}
	for _, seed := range texts {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := jsonrpc.Valid(b), validStd(b); got != want || (jsonrpc.Fault(b) == "") != want {
			t.Errorf("%q: got %v and %q, want %v", b, got, jsonrpc.Fault(b), want)
		}
	})
}

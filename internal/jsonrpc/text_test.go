package jsonrpc_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

func TestAppendString(t *testing.T) {
	tests := []struct{ s, want string }{
		{"", `""`},
		{"<a href=\"x\">&\\/", `"<a href=\"x\">&\\/"`},
		{"\n\r\t\b\x00\x1f\x7f", "\"\\n\\r\\t\\b\\u0000\\u001f\x7f\""},
		{"é世😀\u2027\u2028\u2029\u202a", "\"é世😀\u2027\\u2028\\u2029\u202a\""},
		{"a\xffb\xe4\xb8", "\"a\ufffdb\ufffd\ufffd\""},
	}
	for _, test := range tests {
		if got := string(jsonrpc.AppendString([]byte("x"), test.s)); got != "x"+test.want {
			t.Errorf("%q: got %s, want x%s", test.s, got, test.want)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, v := range []string{
		`""`, `"a/é世😀"`, `"\"\\\/\b\f\n\r\t\u00e9\u4e16"`, `"\ud83d\ude00\uD83D\uDE00"`, `"\ud83d"`, `"\ud83dx\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\n"`, ``, `a`, `1`, `null`, `"a`, `"a"b`, `"a" `, `"\x"`, "\"\n\"", "\"\xff\"", `"\ud83d\ude00\ud83d\u0041\/\b"`,
	} {
		f.Add("a\"\\\n\u2028é😀\xff", []byte(v))
	}
	f.Fuzz(func(t *testing.T, s string, v []byte) {
		quoted := jsonrpc.AppendString(nil, s)
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatalf("got %q of %q: %v", quoted, s, err)
		}
		got, ok := jsonrpc.String(quoted)
		if !ok || got != want || utf8.ValidString(s) && got != s || got != string([]rune(s)) {
			t.Fatalf("got %q, want %q", got, s)
		}

		want = ""
		wantOK := validStd(v) && v[0] == '"' && v[len(v)-1] == '"' && json.Unmarshal(v, &want) == nil
		if got, ok := jsonrpc.String(v); got != want || ok != wantOK {
			t.Fatalf("%q: got %q, %v, want %q, %v", v, got, ok, want, wantOK)
		}
	})
}

func TestFlatten(t *testing.T) {
	b := []byte("{\r\n  \"a\": [\n1\r]\n}\n")
	jsonrpc.Flatten(b)
	if got, want := string(b), `{    "a": [ 1 ] } `; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// Canonical texts of some values. FuzzAppendCanonical checks that equal values have equal texts,
// and which values have no text.
func TestAppendCanonical(t *testing.T) {
	for value, want := range map[string]string{
		" {\t\"b\" :\r\n [ 1 , { } , [ ] ], \"a\":2 } ":          `{"a":2,"b":[1,{},[]]}`,
		`{"b":{"d":1,"c":[{"f":1,"e":2}]},"a":0}`:                `{"a":0,"b":{"c":[{"e":2,"f":1}],"d":1}}`,
		`{"😀":1,"｡":2}`:                                          `{"｡":2,"😀":1}`, // names are sorted by bytes, not by UTF-16
		`{"a\"":1,"a#":2,"a!":3}`:                                `{"a!":3,"a\"":1,"a#":2}`,
		`{"baseRef":1,"b":2,"base":3,"Z":4}`:                     `{"Z":4,"b":2,"base":3,"baseRef":1}`,
		`[1,1.0,1e0,-0,0,9007199254740993]`:                      `[1,1.0,1e0,-0,0,9007199254740993]`,
		`"\u0061\/\u00e9\ud83d\ude00\u2028"`:                     `"a/é😀\u2028"`,
		`"\u0022\u005C\u0008\f\u000A\r\u0009\u0000\u001F\u007f"`: `"\"\\\b\f\n\r\t\u0000\u001f` + "\x7f\"",
	} {
		if got, ok := jsonrpc.AppendCanonical([]byte("before "), []byte(value)); string(got) != "before "+want || !ok {
			t.Errorf("%s: got %s, %v, want %s", value, got, ok, want)
		}
	}
	for _, value := range []string{strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), `{"a":1,"A":1}`} {
		if got, ok := jsonrpc.AppendCanonical([]byte("before"), []byte(value)); string(got) != "before" || ok {
			t.Errorf("%s: got %s, %v, want nothing appended", value, got, ok)
		}
	}
}

// Two texts have the same canonical text exactly if encoding/json decodes equal values from them
// and no object repeats a name, ignoring case. The canonical text of a canonical text is itself.
func FuzzAppendCanonical(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":[1.0,"x"]}`, `{ "b":[1.0,"\u0078"], "a":1 }`},
		{`{"a":1}`, `{"a":1.0}`},
		{`[9007199254740992]`, `[9007199254740993]`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`"\ud800"`, `"\ufffd"`},
		{`{"a\"":1,"a#":2}`, `{"a#":2,"a\u0022":1}`},
		{`{"s":1,"ſ":2}`, `{"aB":1,"Ab":2}`},
		{`{"x":{},"y":[]}`, `{"y":{},"x":[]}`},
		{`"\u2028\/"`, "\"\u2028/\""},
		{strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65)},
		{many(40, 0, -1), many(1, 41, 1)},
		{`{"ab":1,"a":2,"":3}`, `{"":3,"a\\":1,"aZ":2,"a]":3}`},
		{`{"path":1,"b":2,"Path":3}`, `{"a":1,"b":2,"\u0061":3}`},
		{`{"\u212aey":1,"Éa":2,"key":3}`, `{"ά":1,"Ά":2}`},
		{`"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`},
		{`{"\ud83d":1}`, "{\"\xc3\":1}"},
		{`[{"x":{"b":1,"a":2,"b":3}}]`, `{"a":[1`},
		{`1 2`, `[1,]`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, okX := jsonrpc.AppendCanonical(nil, a)
		y, okY := jsonrpc.AppendCanonical(nil, b)
		modelX, wantX := model(a)
		modelY, wantY := model(b)
		for _, got := range []struct {
			ok, want bool
			model    string
		}{{okX, wantX, modelX}, {okY, wantY, modelY}} {
			if got.ok != got.want && !(got.want && strings.ContainsRune(got.model, '\ufffd')) { // may be half of a surrogate pair
				t.Fatalf("%q and %q: got %v, and encoding/json decodes %q", a, b, got.ok, got.model)
			}
		}
		if okX && okY && bytes.Equal(x, y) != (modelX == modelY) {
			t.Errorf("%q and %q: got %q and %q", a, b, x, y)
		}
		if !okX {
			return
		}
		if again, ok := jsonrpc.AppendCanonical(nil, x); !ok || !bytes.Equal(again, x) {
			t.Errorf("%q: got %q of its canonical %q", a, again, x)
		}
		if same, _ := model(x); same != modelX {
			t.Errorf("%q: its canonical %q is decoded as %q, not %q", a, x, same, modelX)
		}
	})
}

// many returns an object with the given numbers as members.
func many(from, to, step int) string {
	var members []string
	for i := from; i != to; i += step {
		members = append(members, fmt.Sprintf(`"m%02d":%d`, i, i))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// model returns the value that encoding/json decodes from text, or false if AppendCanonical
// must refuse the text.
func model(text []byte) (string, bool) {
	if !jsonrpc.Valid(text) || halves(text) {
		return "", false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var out strings.Builder
	ok := modelValue(dec, &out, 1)
	if _, err := dec.Token(); ok && err != io.EOF {
		return "", false
	}
	return out.String(), ok
}

func modelValue(dec *json.Decoder, out *strings.Builder, depth int) bool {
	token, err := dec.Token()
	if err != nil {
		return false
	}
	delim, ok := token.(json.Delim)
	if !ok {
		fmt.Fprintf(out, "%T %q ", token, fmt.Sprint(token))
		return true
	}
	if depth > 64 {
		return false
	}
	members := make(map[string]string)
	for dec.More() {
		name := ""
		if delim == '{' {
			token, err := dec.Token()
			if err != nil {
				return false
			}
			name = token.(string)
		} else {
			name = fmt.Sprintf("%09d", len(members))
		}
		var value strings.Builder
		for other := range members {
			if strings.EqualFold(other, name) {
				return false
			}
		}
		if !modelValue(dec, &value, depth+1) {
			return false
		}
		members[name] = value.String()
	}
	if _, err := dec.Token(); err != nil {
		return false
	}
	fmt.Fprintf(out, "%v ", delim)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(out, "%q: %s", name, members[name])
	}
	out.WriteString("end ")
	return true
}

// halves reports whether a valid text contains half of a surrogate pair. encoding/json decodes
// that as U+FFFD, so the value has more of these than the text.
func halves(text []byte) bool {
	const mark = '\uE000' // stands for a U+FFFD that the text contains
	plain := bytes.ReplaceAll(text, []byte("\ufffd"), []byte(string(mark)))
	var out []byte
	for i := 0; i < len(plain); i++ {
		switch {
		case plain[i] != '\\':
			out = append(out, plain[i])
		case len(plain)-i >= 6 && strings.EqualFold(string(plain[i:i+6]), `\ufffd`) && plain[i+1] == 'u':
			out = append(out, string(mark)...)
			i += 5
		default:
			out = append(out, plain[i], plain[i+1])
			i++
		}
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return err != io.EOF
		}
		if s, ok := token.(string); ok && strings.ContainsRune(s, '\ufffd') {
			return true
		}
	}
}

package excerpt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// drawValue draws usual and unusual JSON.
func drawValue(t *rapid.T, depth int) string {
	most := 6
	if depth > 4 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "0", "-1.50", "1e400", "12345678901234567890123456789012345678901234567890"}).Draw(t, "scalar")
	case 1, 2, 3:
		return drawString(t)
	case 4:
		var items []string
		item := drawValue(t, depth+1)
		for range rapid.IntRange(0, 8).Draw(t, "items") {
			if rapid.Bool().Draw(t, "another") {
				item = drawValue(t, depth+1)
			}
			items = append(items, item)
		}
		return "[" + strings.Join(items, rapid.SampledFrom([]string{",", " , ", ",\n"}).Draw(t, "comma")) + "]"
	}
	var members []string
	for i := range rapid.IntRange(0, 8).Draw(t, "members") {
		name := fmt.Sprintf("%d%s", i, rapid.SampledFrom([]string{"", "~", "/", "ä", `\"`, `\u00e4`, "a long name to have", `\ud83d`}).Draw(t, "name"))
		members = append(members, `"`+name+`": `+drawValue(t, depth+1))
	}
	return "{ " + strings.Join(members, ",") + "}"
}

func drawString(t *rapid.T) string {
	piece := rapid.SampledFrom([]string{"a", "word ", "ä", "日本", "😀", `\n`, `\"`, `\\`, `\u00e4`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\/`})
	return `"` + strings.Join(rapid.SliceOfN(piece, 0, 60).Draw(t, "pieces"), "") + `"`
}

func TestCutProperties(t *testing.T) {
	cuts := 0
	rapid.Check(t, func(t *rapid.T) {
		value := []byte(drawValue(t, 0))
		l := rapid.IntRange(0, 300).Draw(t, "chars")
		out, left := excerpt.Cut(value, l)
		checkCut(t, value, out, left, l)
		if len(left) > 0 {
			cuts++
		}
	})
	if cuts < 10 {
		t.Errorf("%d values were cut: the test proves nothing", cuts)
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"a":[1,2,{"b":"text\ud83d\ude00"}],"c":"ää"}`), 20)
	f.Add([]byte(` [[[[[[1,2],3],4],5],6],7] `), 7)
	f.Add([]byte(`"\ud83d\ude00\ud83d"`), 3)
	f.Fuzz(func(t *testing.T, value []byte, chars int) {
		if !jsonrpc.Valid(value) || !plain(value) {
			return
		}
		out, left := excerpt.Cut(value, chars)
		checkCut(t, value, out, left, chars)
	})
}

// plain reports whether no object has duplicate names: a pointer refers to the first of them
// only.
func plain(value []byte) bool {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return false
	}
	text, err := json.Marshal(v)
	return err == nil && bytes.Count(text, []byte(":")) == bytes.Count(compact(value), []byte(":"))
}

func compact(value []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, value) != nil {
		return nil
	}
	return b.Bytes()
}

type tester interface {
	Helper()
	Fatalf(string, ...any)
}

// checkCut fails unless an excerpt is JSON within its limit, and inserting the omissions restores
// the value.
func checkCut(t tester, value, out []byte, left []excerpt.Omission, l int) {
	t.Helper()
	if !jsonrpc.Valid(out) {
		t.Fatalf("%s\nbecame %s, which is no JSON", value, out)
	}
	if least := string(out); least != "[]" && least != "{}" && least != `""` && least != "null" && utf8.RuneCount(out) > l {
		t.Fatalf("%s\nbecame %s\nof %d characters, at most %d", value, out, utf8.RuneCount(out), l)
	}
	back := decoded(t, out)
	for _, one := range left {
		rest, more := excerpt.Read(value, one.Pointer, one.From, all)
		if len(more) > 0 || one.Count <= 0 || one.Bytes <= 0 {
			t.Fatalf("%s\nbecame %s\nand reading %+v leaves %+v", value, out, one, more)
		}
		pointer := one.Pointer
		if one.What == "field" {
			name := pointer[strings.LastIndexByte(pointer, '/')+1:]
			name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
			pointer = pointer[:strings.LastIndexByte(pointer, '/')]
			rest = append(append(jsonrpc.AppendString([]byte("{"), name), ':'), append(rest, '}')...)
		}
		back = put(t, back, pointer, one, decoded(t, rest))
	}
	if want := decoded(t, value); !reflect.DeepEqual(want, back) { // cmp.Diff is very slow for a few dozen brackets
		t.Fatalf("%s\nbecame %s\nwith %+v; put together\n%v", value, out, left, back)
	}
}

func decoded(t tester, value []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return v
}

// put inserts an omission into the value at its pointer.
func put(t tester, to any, pointer string, l excerpt.Omission, rest any) any {
	t.Helper()
	if pointer != "" {
		token, further, _ := strings.Cut(pointer[1:], "/")
		if further != "" {
			further = "/" + further
		}
		name := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		switch to := to.(type) {
		case map[string]any:
			if _, ok := to[name]; !ok {
				t.Fatalf("%+v leads nowhere", l)
			}
			to[name] = put(t, to[name], further, l, rest)
		case []any:
			var i int
			fmt.Sscan(name, &i)
			to[i] = put(t, to[i], further, l, rest)
		}
		return to
	}
	switch to := to.(type) {
	case map[string]any:
		n := 0
		for name, v := range rest.(map[string]any) {
			if _, ok := to[name]; ok && l.What == "field" {
				t.Fatalf("%+v is omitted and present", l)
			}
			if _, ok := to[name]; !ok {
				n++
			}
			if _, ok := to[name]; !ok {
				to[name] = v
			}
		}
		if n < l.Count && l.What == "fields" {
			t.Fatalf("%+v names %d fields", l, n)
		}
		return to
	case []any:
		if len(to) != l.From || len(rest.([]any)) != l.Count {
			t.Fatalf("%+v is omitted from %d items", l, len(to))
		}
		return append(to, rest.([]any)...)
	case string:
		if len(to) != l.From {
			t.Fatalf("%+v is omitted from %d bytes", l, len(to))
		}
		return to + rest.(string)
	}
	return rest // a number that was too long
}

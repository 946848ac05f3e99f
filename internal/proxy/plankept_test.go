package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
)

// part is a result of mcpschedd_read_result.
type part struct {
	Value json.RawMessage
	Text  *string
	Next  *int `json:"next_offset"`
	Bytes int
	Left  []struct{ Pointer, What string } `json:"left_out"`
}

// excerpt reads one part of a kept result.
func (p *planner) excerpt(handle, pointer string, offset int) part {
	p.t.Helper()
	arguments := fmt.Sprintf(`{"handle":%q,"pointer":%s}`, handle, jsonrpc.AppendString(nil, pointer))
	if offset >= 0 {
		arguments = fmt.Sprintf(`{"handle":%q,"pointer":%s,"offset":%d}`, handle, jsonrpc.AppendString(nil, pointer), offset)
	}
	text := p.read(arguments)
	if n := utf8.RuneCountInString(text); n > 50_000 {
		p.t.Errorf("%s at %d: %d characters", pointer, offset, n)
	}
	var out part
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		p.t.Fatalf("%s: got %s: %v", arguments, text, err)
	}
	return out
}

// whole reassembles the value at a pointer, using only the information in the results.
func (p *planner) whole(handle, pointer string) []byte {
	p.t.Helper()
	a := p.excerpt(handle, pointer, -1)
	if len(a.Left) == 0 {
		return a.Value
	}
	switch a.Value[0] {
	case '"':
		return p.text(handle, pointer)
	case '[':
		var items [][]byte
		for next := 0; ; next = *a.Next {
			a = p.excerpt(handle, pointer, next)
			for range jsonrpc.Elements(a.Value) {
				items = append(items, p.whole(handle, fmt.Sprintf("%s/%d", pointer, len(items))))
			}
			if a.Next == nil {
				return append(append([]byte("["), bytes.Join(items, []byte(","))...), ']')
			}
			if *a.Next <= next {
				p.t.Fatalf("%s: from %d it goes on at %d", pointer, next, *a.Next)
			}
		}
	case '{':
		out := []byte("{}")
		for m := range jsonrpc.Members(a.Value) {
			out = jsonrpc.Set(out, string(m.Name), p.whole(handle, pointer+"/"+jsonrpc.PointerToken(string(m.Name))))
		}
		for _, l := range a.Left {
			if l.What == "field" {
				token := l.Pointer[strings.LastIndexByte(l.Pointer, '/')+1:]
				name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
				out = jsonrpc.Set(out, name, p.whole(handle, l.Pointer))
			}
		}
		return out
	}
	p.t.Fatalf("%s: got %+v", pointer, a)
	panic("unreachable")
}

func (p *planner) text(handle, pointer string) []byte {
	var all strings.Builder
	for next := 0; ; {
		a := p.excerpt(handle, pointer, next)
		if a.Text == nil || *a.Text == "" && a.Next != nil {
			p.t.Fatalf("%s at %d: got %+v", pointer, next, a)
		}
		all.WriteString(*a.Text)
		if a.Next == nil {
			if all.Len() != a.Bytes {
				p.t.Errorf("%s: got %d bytes, told were %d", pointer, all.Len(), a.Bytes)
			}
			return jsonrpc.AppendString(nil, all.String())
		}
		next = *a.Next
	}
}

// Everything that did not fit can be read: texts with characters of several bytes, arrays,
// objects, and nested ones.
func TestPlanResultsReassembled(t *testing.T) {
	t.Parallel()
	long := func(n int) string {
		if n >= 500 {
			n = slice(n/2, n)
		}
		return strings.Repeat("Zeile ✓ 🙂 \"x\" \\ \n", n)
	}
	values := map[string]any{
		"text": long(900),
		"array": func() (all []any) {
			for i := range slice(200, 400) {
				all = append(all, map[string]any{"n": i, "t": long(i % 4)})
			}
			return
		}(),
		"object": map[string]any{"a/b~c": long(500), "total": 7, "rows": []any{1, long(1200), []any{long(10), nil}}, "x": map[string]any{"y": long(800)}},
		"big":    []any{long(700), long(700), 1},
		"lone":   []any{[]any{[]any{long(900)}}},
		"marks":  strings.Repeat("🙂", slice(3000, 6000)),
	}
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply {
			name, _ := jsonrpc.String(jsonrpc.Get([]byte(v.arguments), "x"))
			value, err := json.Marshal(values[name])
			if err != nil {
				t.Error(err)
			}
			return reply{result: `{"content":[],"structuredContent":` + string(value) + `}`}
		})
		o := planned(t)
		o.Plans.Budget = 800
		d := beset(t, f, o)
		p := d.plans(handshake)
		for name, value := range values {
			a := p.run(fmt.Sprintf(`{"id":"a","tool":"get","arguments":{"x":%q}}`, name))
			if len(a.Left) == 0 || a.Handle == "" {
				t.Errorf("%s: got %+v, want a handle", name, a.Left)
				continue
			}
			var got any
			if err := json.Unmarshal(p.whole(a.Handle, "/a"), &got); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			want, err := json.Marshal(value)
			if err != nil {
				t.Error(err)
			}
			if back, err := json.Marshal(got); err != nil || !sameJSON(t, back, want) {
				t.Errorf("%s: what was put together is not what there is (%d bytes of %d)", name, len(back), len(want))
			}
			for _, l := range a.Left { // the pointers in the plan's result lead there as well
				if text := p.read(fmt.Sprintf(`{"handle":%q,"pointer":%s,"offset":%d}`, a.Handle, jsonrpc.AppendString(nil, l.Pointer), l.From)); strings.Contains(text, "nothing there") {
					t.Errorf("%s: %+v: %s", name, l, text)
				}
			}
		}
	})
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	one, _ := json.Marshal(x)
	two, _ := json.Marshal(y)
	return bytes.Equal(one, two)
}

// A handle is valid in its session, for a limited time, and until the session ends.
func TestPlanHandlesEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply { return reply{result: said(strings.Repeat("lorem ipsum ", 4000))} })
		o := planned(t)
		o.Plans.Budget, o.Plans.KeepFor = 500, 10*time.Minute
		d := beset(t, f, o)
		p, other := d.plans(handshake), d.plans(stateless)
		handle := func() string {
			a := p.run(`{"id":"a","tool":"get"}`)
			return fmt.Sprintf(`{"handle":%q}`, a.Handle)
		}
		h := handle()
		if text := p.read(h); !strings.Contains(text, "lorem") {
			t.Errorf("got %s", text)
		}
		for _, arguments := range []string{h, "{}"} {
			if text := other.read(arguments); strings.Contains(text, "lorem") || strings.Contains(text, "plan 1") {
				t.Errorf("another session's: got %s", text)
			}
		}
		time.Sleep(10*time.Minute - time.Second)
		if text := p.read(h); !strings.Contains(text, "lorem") {
			t.Errorf("before its time is over: got %s", text)
		}
		if text := p.read("{}"); !strings.Contains(text, "plan 1, all results") {
			t.Errorf("got %s", text)
		}
		time.Sleep(2 * time.Second)
		if text := p.read(h); !strings.Contains(text, "unknown or expired (10m0s, [plan].handle_ttl)") {
			t.Errorf("after it: got %s", text)
		}
		if text := p.read("{}"); text != "No results to read." {
			t.Errorf("got %s", text)
		}
		handle()
		if n := proxy.Results(d.proxy); n != 1 {
			t.Errorf("%d results are kept, want 1: what is over goes with the next that comes", n)
		}
		p.leave()
		d.guests = d.guests[1:]
		if n := proxy.Results(d.proxy); n != 0 {
			t.Errorf("%d results are kept of a session that has ended", n)
		}
	})
}

// The error for a wrong argument says what is expected.
func TestPlanReadWrongly(t *testing.T) {
	p, _, _ := planning(t, handshake, func(o *proxy.Options) { o.Plans.Budget = 400 })
	c := connect(t, p, handshake)
	a := c.plan(`{"steps":[{"id":"a","tool":"large"}]}`)
	h := a.Handle
	for arguments, want := range map[string]string{
		`{"handle":7}`:                                                    "want a string",
		`{"handle":"nobody's"}`:                                           `"nobody's"`,
		`{"handle":"","pointer":"rows"}`:                                  "JSON pointer",
		`{"handle":"` + h + `","pointer":"rows"}`:                         "JSON pointer",
		`{"handle":"` + h + `","pointer":"/a/rows/~2"}`:                   "JSON pointer",
		`{"handle":"` + h + `","pointer":["rows"]}`:                       "JSON pointer",
		`{"handle":"` + h + `","pointer":"/a/nothing"}`:                   "nothing there",
		`{"handle":"` + h + `","pointer":"/a/rows/99999999"}`:             "nothing there",
		`{"handle":"` + h + `","pointer":"/a/rows/01"}`:                   "nothing there",
		`{"handle":"` + h + `","offset":-1}`:                              "whole number",
		`{"handle":"` + h + `","offset":1.5}`:                             "whole number",
		`{"handle":"` + h + `","offset":"1"}`:                             "whole number",
		`{"handle":"` + h + `","offset":99999999999999999999}`:            "whole number",
		`{"handle":"` + h + `","pointer":"/a/rows/0/text","offset":1000}`: "the text has 26 bytes",
		`{"handle":"` + h + `","length":3}`:                               "length: unknown",
		`[]`:                                                              "want an object",
	} {
		if text := c.broken("mcpschedd_read_result", arguments); !strings.Contains(text, want) {
			t.Errorf("%s: got %q, want %q in it", arguments, text, want)
		}
	}
	for arguments, want := range map[string]string{
		`{"handle":"` + h + `","offset":5000,"pointer":"/a/rows"}`:      `{"value":[{"id":2}]}`,
		`{"handle":"` + h + `","offset":9000,"pointer":"/a/rows"}`:      `{"value":[]}`,
		`{"handle":"` + h + `","pointer":"/a/rows/5000/id"}`:            `{"value":2}`,
		`{"handle":"` + h + `","pointer":"/a/rows/0/text","offset":26}`: `{"text":"","bytes":26}`,
		`{"handle":"` + h + `","pointer":"/a/rows/0/text","offset":22}`: `{"text":"amet","bytes":26}`,
	} {
		if got := c.said("mcpschedd_read_result", arguments); got != want {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}

// Kept results stay within their limits in any sequence.
func TestPlanKeepsWithinBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	k, now := proxy.NewKeeping(), time.Now()
	handles := make(map[string][]string)
	for i := range slice(1500, 4000) {
		now = now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
		name := fmt.Sprintf("s%d", r.IntN(12))
		size := 1 << r.IntN(24)
		if i%500 == 499 {
			size = 33 << 20
		}
		h := k.Add(name, size, now, time.Duration(r.IntN(300))*time.Second)
		if (h == "") != (size > 32<<20) {
			t.Errorf("%d bytes: got handle %q", size, h)
		}
		if h != "" && !k.Has(name, h, now) {
			t.Errorf("%d bytes: not there", size)
		}
		handles[name] = append(handles[name], h)
		if r.IntN(50) == 0 {
			k.Drop(name)
			for _, h := range handles[name] {
				if k.Has(name, h, now) {
					t.Error("there after the end of its session")
				}
			}
			delete(handles, name)
		}
		if there := k.Bytes(); there > 256<<20 {
			t.Fatalf("%d bytes are there", there)
		}
	}
	for i := range 1000 {
		k.Add("many", 1, now, time.Duration(i+1)*time.Second)
	}
	if list := k.List("many", now); strings.Count(list, "\n") != 101 || !strings.Contains(list, "and 900 more") {
		t.Errorf("got a list of %d lines: %s", strings.Count(list, "\n"), list[max(len(list)-100, 0):])
	}
}

// No result is longer than clients accept, including the description of the rest and the
// escapes of JSON.
func TestPlanExcerptsFit(t *testing.T) {
	t.Parallel()
	const most, tokens = 48_000, 10_000
	fields := func(n, name int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%s%d":%d`, strings.Repeat("n", name), i, i), fmt.Sprintf(`"m%d":"%s"`, i, strings.Repeat("lorem ipsum ", 200)))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	control := string(jsonrpc.AppendString(nil, strings.Repeat("\x01", slice(60_000, 100_000))))
	values := map[string]string{
		"fields": fields(100, 1), "long names": fields(60, 100), "longer ones": fields(80, 1000),
		"lines": string(jsonrpc.AppendString(nil, strings.Repeat("\n", slice(60_000, 120_000)))), "control": control,
		"deep": `{"a":` + fields(60, 1) + `,"b":[` + fields(40, 20) + `,` + control[:6*50_000+1] + `"]}`,
	}
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply {
			name, _ := jsonrpc.String(jsonrpc.Get([]byte(v.arguments), "x"))
			return reply{result: `{"content":[],"structuredContent":` + values[name] + `}`}
		})
		o := planned(t)
		o.Plans.Budget = tokens
		d := beset(t, f, o)
		p := d.plans(handshake)
		for name := range values {
			a := p.run(fmt.Sprintf(`{"id":"a","tool":"get","arguments":{"x":%q}}`, name))
			if len(a.Left) == 0 {
				t.Errorf("%s: all of it came back", name)
				continue
			}
			for _, more := range []string{"", `,"offset":50`} {
				text := p.read(fmt.Sprintf(`{"handle":%q%s}`, a.Handle, more))
				if n := utf8.RuneCountInString(text); n > most {
					t.Errorf("%s%s: %d characters", name, more, n)
				}
				if n := deliver.Tokens([]byte(text)); n > tokens {
					t.Errorf("%s%s: %d tokens", name, more, n)
				}
			}
		}
	})
}

package jsonrpc_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// checkIndex compares each lookup in an index with a walk over the object.
func checkIndex(t *testing.T, obj []byte) {
	t.Helper()
	x := jsonrpc.NewIndex(obj)
	all := slices.Collect(jsonrpc.Members(obj))
	checkMembers(t, x.All(), string(obj))
	if x.Len() != len(all) || !bytes.Equal(x.Raw(), obj) {
		t.Errorf("got %d members of %s, want %d of %s", x.Len(), x.Raw(), len(all), obj)
	}
	ambiguous := false
	for _, name := range append([]string{"", "name", "no such"}, names(all)...) {
		if got, want := x.Get(name), jsonrpc.Get(obj, name); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("got %s of %s, want %s", name, got, want)
		}
		same, like := 0, 0 // members with the name; members with the name in any case
		for _, m := range all {
			if string(m.Name) == name {
				same++
			}
			if strings.EqualFold(string(m.Name), name) {
				like++
			}
		}
		ambiguous = ambiguous || like > 1
		value, rival := x.Sole(name)
		if (rival != nil) != (like > 1 || like > same) || rival != nil && value != nil || rival == nil && !bytes.Equal(value, x.Get(name)) {
			t.Errorf("%q in %s: got the sole value %s and the rival %q; it occurs %d times, in any case %d times", name, obj, value, rival, same, like)
		}
	}
	if x.Unambiguous() == ambiguous {
		t.Errorf("%s: got unambiguous %v, want %v", obj, !ambiguous, ambiguous)
	}
}

func names(all []jsonrpc.Member) (out []string) {
	for _, m := range all {
		out = append(out, string(m.Name), strings.ToUpper(string(m.Name)))
	}
	return out
}

// Objects of up to forty members, with names that are repeated, escaped or differ only in
// case.
func TestIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := []string{`name`, `Name`, `n\u0061me`, ``, `a`, `A`, `\"`, `é`, `É`, `_meta`, `arguments`, `\u212a`, `k`}
	values := []string{`1`, `"}"`, `{"name":[1,"]"]}`, `[ ]`, `null`, `"\\"`}
	for range 2000 {
		var b strings.Builder
		b.WriteString(" { ")
		for i := range rng.IntN(1 + rng.IntN(40)) {
			name := some[rng.IntN(len(some))]
			if rng.IntN(3) > 0 {
				name = fmt.Sprint("m", rng.IntN(60))
			}
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "\"%s\" :%s ", name, values[rng.IntN(len(values))])
		}
		b.WriteString("}")
		checkIndex(t, []byte(b.String()))
	}
	for _, obj := range []string{"", "null", "[1]", `"{"`, "{}"} {
		checkIndex(t, []byte(obj))
	}
	checkIndex(t, nil)
}

func TestIndexAllocates(t *testing.T) {
	params := []byte(`{"name":"read","arguments":{"path":"a"},"_meta":{"progressToken":1},"task":{}}`)
	x := jsonrpc.NewIndex(params)
	n := testing.AllocsPerRun(100, func() {
		if value, _ := x.Sole("name"); value == nil || x.Get("task") == nil || !x.Unambiguous() {
			t.Error("members are missing")
		}
		for range x.All() {
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations for the lookups, want none", n)
	}
}

func FuzzIndex(f *testing.F) {
	for _, seed := range []string{`{"name":"a","n\u0061me":1}`, ` {"k":1,"\u212A":2} `, `[{"a":1}]`, `{"a":{"b":"}"},"":null}`, `{"a":{"b":1,"b":2}}`, `{"stra\u00dfe":1,"STRASSE":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, obj []byte) {
		if jsonrpc.Valid(obj) {
			checkIndex(t, obj)
		}
	})
}

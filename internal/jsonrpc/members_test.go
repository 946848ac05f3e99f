package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
)

func TestMembersStopEarly(t *testing.T) {
	for m := range jsonrpc.Members([]byte(`{"a":1,"b":2}`)) {
		if string(m.Name) != "a" {
			t.Errorf("got member %s after the loop had ended", m.Name)
		}
		break
	}
	for e := range jsonrpc.Elements([]byte(`[1,2]`)) {
		if string(e) != "1" {
			t.Errorf("got element %s after the loop had ended", e)
		}
		break
	}
}

// A value that is not an object counts as an empty object, and Delete returns an unchanged
// object without a copy.
func TestSetAndDelete(t *testing.T) {
	for _, c := range []struct{ obj, set, deleted string }{
		{"", `{"a":9}`, ""},
		{"null", `{"a":9}`, "null"},
		{"[1]", `{"a":9}`, "[1]"},
		{" { } ", `{"a":9}`, " { } "},
		{"{\n  \"b\": 1\n}\n", `{"b": 1,"a":9}`, "{\n  \"b\": 1\n}\n"},
		{`{ "b":2 , "\u0061":1 }`, `{"b":2,"\u0061":9}`, `{"b":2}`},
		{`{"a":1, "b":2, "a":3 , "a":4, "c":5}`, `{"a":9,"b":2,"c":5}`, `{"b":2,"c":5}`},
	} {
		obj := []byte(c.obj)
		if got := jsonrpc.Set(obj, "a", []byte("9")); string(got) != c.set {
			t.Errorf("set: %q became %q, want %q", c.obj, got, c.set)
		}
		got := jsonrpc.Delete(obj, func(name []byte) bool { return string(name) == "a" })
		if string(got) != c.deleted || c.obj == c.deleted && len(obj) > 0 && &got[0] != &obj[0] {
			t.Errorf("delete: %q became %q, want %q, without a copy if it is the same", c.obj, got, c.deleted)
		}
		if string(obj) != c.obj {
			t.Errorf("the argument %q has become %q", c.obj, obj)
		}
	}
}

// member is a member as decoded by encoding/json.
type member struct{ Name, Value string }

// membersStd returns the members of obj, or false if obj is not a valid object.
func membersStd(obj []byte) ([]member, bool) {
	if !validStd(obj) || !bytes.HasPrefix(bytes.TrimLeft(obj, " \t\r\n"), []byte("{")) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(obj))
	d.Token()
	var all []member
	for d.More() {
		name, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, false
		}
		all = append(all, member{name.(string), string(value)})
	}
	return all, true
}

var objects = []string{
	``, `{}`, ` { } `, `{"a":1}`, `{"a":1,"b":"x\\\"y","a":{"a":[1,{"b":2}]}}`,
	"{\n  \"a\" : [ 1 , 2 ],\r\n  \"\\u0061\\/\" : null , \"\":\"\"\n}", `[{"a":1},"b",[]]`, `{"a":"x`, `{"a\`, `{"\u00`,
	`{"a\"":"\\","b":"\\\"","c":"\"\\"}`, `{"a":{"b":{"c":"}"}},"d":[[],"]"]}`, "[ {\"a\":[1,2]} ,\n[ ] , \"],\" ,-1.5e3,null ] ",
	`{"b":1,"a":2, "a" : 3 ,"a":4,"\u0061":5}`, `null`, ` [ ] `,
}

func FuzzMembers(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, obj []byte, name string) {
		var got []member
		for m := range jsonrpc.Members(obj) { // must not panic on invalid JSON
			got = append(got, member{string(m.Name), string(m.Value)})
		}
		value := jsonrpc.Get(obj, name)
		var elements []json.RawMessage
		for e := range jsonrpc.Elements(obj) {
			elements = append(elements, e)
		}
		if want, ok := membersStd(obj); ok {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("members of %q (-want +got):\n%s", obj, diff)
			}
			i := slices.IndexFunc(want, func(m member) bool { return m.Name == name })
			if i >= 0 && string(value) != want[i].Value || i < 0 && value != nil {
				t.Fatalf("got %q of %q, want member %d", value, obj, i)
			}
			return
		}
		var want []json.RawMessage
		if validStd(obj) && json.Unmarshal(obj, &want) == nil {
			if len(want) == 0 {
				want = nil
			}
			if diff := cmp.Diff(want, elements); diff != "" {
				t.Fatalf("elements of %q (-want +got):\n%s", obj, diff)
			}
		}
	})
}

func FuzzSet(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, obj []byte, name string) {
		const value = `[ 9]`
		got := jsonrpc.Set(obj, name, []byte(value))
		old, ok := membersStd(obj)
		if !ok {
			return
		}
		name = strings.ToValidUTF8(name, "\ufffd")
		if strings.Count(name, "\ufffd") > 0 {
			return // encoding/json replaces runs of invalid bytes differently
		}
		var want []member
		found := false
		for _, m := range old {
			switch {
			case m.Name != name:
				want = append(want, m)
			case !found:
				want = append(want, member{name, value})
				found = true
			}
		}
		if !found {
			want = append(want, member{name, value})
		}
		all, ok := membersStd(got)
		if diff := cmp.Diff(want, all); !ok || diff != "" {
			t.Fatalf("got %q of %q (-want +got):\n%s", got, obj, diff)
		}
		kept := func(n []byte) bool { return string(n) != name }
		if diff := cmp.Diff(rawMembers(obj, kept), rawMembers(got, kept)); diff != "" {
			t.Fatalf("other members of %q (-want +got):\n%s", obj, diff)
		}
	})
}

func FuzzDelete(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), byte(5))
	}
	f.Fuzz(func(t *testing.T, obj []byte, pick byte) {
		// goes selects members by an arbitrary property of their names.
		goes := func(name []byte) bool { return (len(name)+bytes.Count(name, []byte("a")))%7 < int(pick%8) }
		got := jsonrpc.Delete(obj, goes)
		old, ok := membersStd(obj)
		if !ok {
			return
		}
		var want []member
		for _, m := range old {
			if !goes([]byte(m.Name)) {
				want = append(want, m)
			}
		}
		all, ok := membersStd(got)
		if diff := cmp.Diff(want, all); !ok || diff != "" {
			t.Fatalf("got %q of %q (-want +got):\n%s", got, obj, diff)
		}
		if len(want) == len(old) && !bytes.Equal(got, obj) {
			t.Fatalf("got %q, want it unchanged: %q", got, obj)
		}
		stays := func(name []byte) bool { return !goes(name) }
		if diff := cmp.Diff(rawMembers(obj, stays), rawMembers(got, stays)); diff != "" {
			t.Fatalf("other members of %q (-want +got):\n%s", obj, diff)
		}
	})
}

// rawMembers returns the text of the members with kept names.
func rawMembers(obj []byte, kept func(name []byte) bool) []string {
	var all []string
	for m := range jsonrpc.Members(obj) {
		if kept(m.Name) {
			all = append(all, string(m.Raw))
		}
	}
	return all
}

// Only a valid array is split.
func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		` [1, {"a":[2]}]`: {"1", `{"a":[2]}`},
		`[]`:              nil,
		`{"a":[1,2]}`:     {`{"a":[1,2]}`},
		`[1,2`:            {`[1,2`},
		``:                {``},
	} {
		var got []string
		for raw := range jsonrpc.Split([]byte(in)) {
			got = append(got, string(raw))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

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

func TestMembers(t *testing.T) {
	tests := []struct {
		name string
		obj  string
		want []string // name, value and raw, in turn
	}{
		{"nil", "", nil},
		{"null", "null", nil},
		{"array", `["a",{"b":1}]`, nil},
		{"empty", " { } ", nil},
		{"scalars", `{"a":1,"b":"x","c":null}`, []string{"a", "1", `"a":1`, "b", `"x"`, `"b":"x"`, "c", "null", `"c":null`}},
		{"white space", "{ \"a\" :\t[ 1 , 2 ] ,\r\n\"b\": true }", []string{"a", "[ 1 , 2 ]", "\"a\" :\t[ 1 , 2 ]", "b", "true", `"b": true`}},
		{"nested", `{"a":{"b":{"c":"}"}},"d":[[],"]"]}`, []string{"a", `{"b":{"c":"}"}}`, `"a":{"b":{"c":"}"}}`, "d", `[[],"]"]`, `"d":[[],"]"]`}},
		{"quotes in strings", `{"a\"":"\\","b":"\\\"","c":"\"\\"}`, []string{`a"`, `"\\"`, `"a\"":"\\"`, "b", `"\\\""`, `"b":"\\\""`, "c", `"\"\\"`, `"c":"\"\\"`}},
		{"escaped names", `{"\u0061\n":1,"":2}`, []string{"a\n", "1", `"\u0061\n":1`, "", "2", `"":2`}},
		{"repeated", `{"a":1,"a":2}`, []string{"a", "1", `"a":1`, "a", "2", `"a":2`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for m := range jsonrpc.Members([]byte(test.obj)) {
				got = append(got, string(m.Name), string(m.Value), string(m.Raw))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
}

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

func TestElements(t *testing.T) {
	tests := []struct {
		arr  string
		want []string
	}{
		{"", nil},
		{`{"a":[1]}`, nil},
		{" [ ] ", nil},
		{`[1]`, []string{"1"}},
		{"[ {\"a\":[1,2]} ,\n[ ] , \"],\" ,-1.5e3,null ] ", []string{`{"a":[1,2]}`, "[ ]", `"],"`, "-1.5e3", "null"}},
	}
	for _, test := range tests {
		var got []string
		for e := range jsonrpc.Elements([]byte(test.arr)) {
			got = append(got, string(e))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("elements of %s (-want +got):\n%s", test.arr, diff)
		}
	}
}

func TestGet(t *testing.T) {
	const obj = `{"x":{"name":1},"n\u0061me":"first","name":"second","null":null}`
	for name, want := range map[string]string{"name": `"first"`, "null": "null", "x": `{"name":1}`, "y": ""} {
		got := jsonrpc.Get([]byte(obj), name)
		if string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, obj := range []string{"", "null", `["name",1]`, "{}"} {
		if got := jsonrpc.Get([]byte(obj), "name"); got != nil {
			t.Errorf("%s: got %q, want nil", obj, got)
		}
	}
}

func TestSet(t *testing.T) {
	tests := []struct{ name, obj, want string }{
		{"nil", "", `{"a":9}`},
		{"null", "null", `{"a":9}`},
		{"array", "[1]", `{"a":9}`},
		{"empty", "{}", `{"a":9}`},
		{"empty with space", " { } ", ` {"a":9 } `},
		{"append", `{"b":1}`, `{"b":1,"a":9}`},
		{"append behind space", "{\n  \"b\": 1\n}\n", "{\n  \"b\": 1\n,\"a\":9}\n"},
		{"replace the only one", `{ "a" : "x" }`, `{ "a" : 9 }`},
		{"replace the first", `{"a":{"a":1},"b":2}`, `{"a":9,"b":2}`},
		{"replace the last", `{"b":{"a":1},"a":[1,2]}`, `{"b":{"a":1},"a":9}`},
		{"escaped name", `{"\u0061":1}`, `{"\u0061":9}`},
		{"repeated", `{"a":1, "b":2, "a":3 , "a":4, "c":5}`, `{"a":9, "b":2, "c":5}`},
		{"repeated at once", `{"a":1,"a":2}`, `{"a":9}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			obj := []byte(test.obj)
			if got := jsonrpc.Set(obj, "a", []byte("9")); string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if string(obj) != test.obj {
				t.Errorf("the object has become %s, was %s", obj, test.obj)
			}
		})
	}
	if got, want := string(jsonrpc.Set(nil, "a\"\n", []byte("1"))), `{"a\"\n":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDelete(t *testing.T) {
	tests := []struct{ name, obj, want string }{
		{"nil", "", ""},
		{"array", `["a"]`, `["a"]`},
		{"empty", "{ }", "{ }"},
		{"none", ` { "b" : {"a":1} } `, ` { "b" : {"a":1} } `},
		{"only", ` { "a" : 1 } `, ` {} `},
		{"first", `{ "a":1, "b":2 }`, `{ "b":2 }`},
		{"last", `{ "b":2 , "a":1 }`, `{ "b":2 }`},
		{"middle", `{"b":2,"a":1, "c":3}`, `{"b":2, "c":3}`},
		{"several", `{"a":1,"b":2,"a":[1,2],"\u0061":{},"c":3,"a":"x"}`, `{"b":2,"c":3}`},
		{"all", `{"a":1,"a":2}`, `{}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			obj := []byte(test.obj)
			got := jsonrpc.Delete(obj, func(name []byte) bool { return string(name) == "a" })
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if test.obj == test.want && len(obj) > 0 && &got[0] != &obj[0] {
				t.Errorf("got a copy, want the object itself")
			}
			if string(obj) != test.obj {
				t.Errorf("the object has become %s, was %s", obj, test.obj)
			}
		})
	}
}

// member is a member as encoding/json reads it.
type member struct{ Name, Value string }

// membersStd returns the members of obj, false if it is no valid object.
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
}

func FuzzMembers(f *testing.F) {
	for _, seed := range objects {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, obj []byte, name string) {
		var got []member
		for m := range jsonrpc.Members(obj) { // broken ones must do no harm
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
			return // runs of invalid bytes are joined here and not there
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
		// Whatever the names are, some go and some stay.
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
			t.Fatalf("got %q, want it as it was: %q", got, obj)
		}
		stays := func(name []byte) bool { return !goes(name) }
		if diff := cmp.Diff(rawMembers(obj, stays), rawMembers(got, stays)); diff != "" {
			t.Fatalf("other members of %q (-want +got):\n%s", obj, diff)
		}
	})
}

// rawMembers returns the members whose names are kept, as they are written.
func rawMembers(obj []byte, kept func(name []byte) bool) []string {
	var all []string
	for m := range jsonrpc.Members(obj) {
		if kept(m.Name) {
			all = append(all, string(m.Raw))
		}
	}
	return all
}

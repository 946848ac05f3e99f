package jsonrpc_test

import (
	"slices"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

func TestAt(t *testing.T) {
	value := []byte(`{"a":[1,{"b":"x"},[]],"":0,"a/b":1,"m~n":2,"~1":3,"c%d":4,"A":5,"é":1e400}`)
	for _, c := range []struct{ pointer, want string }{
		{"", string(value)},
		{"/a/0", "1"},
		{"/a/1/b", `"x"`},
		{"/a/2", "[]"},
		{"/a/3", ""},
		{"/a/2/0", ""},
		{"/a/00", ""},
		{"/a/01", ""},
		{"/a/+1", ""},
		{"/a/-1", ""},
		{"/a/-", ""},
		{"/a/", ""},
		{"/a/99999999999999999999", ""},
		{"/a/1/b/c", ""},
		{"/", "0"},
		{"/a~1b", "1"},
		{"/m~0n", "2"},
		{"/~01", "3"},
		{"/c%d", "4"},
		{"/A", "5"},
		{"/é", "1e400"},
		{"/b", ""},
	} {
		if !jsonrpc.ValidPointer(c.pointer) {
			t.Errorf("%q: got no pointer", c.pointer)
		}
		if got := string(jsonrpc.At(value, c.pointer)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.pointer, got, c.want)
		}
	}
	for _, bad := range []string{"a", "#/a", "/~", "/a~2", "/~a/b"} {
		if jsonrpc.ValidPointer(bad) {
			t.Errorf("%q: got a pointer, want none", bad)
		}
	}
	for _, name := range []string{"", "~1", "a/b~", "~~//", "~01"} {
		tokens := slices.Collect(jsonrpc.PointerTokens("/" + jsonrpc.PointerToken(name)))
		if !slices.Equal(tokens, []string{name}) {
			t.Errorf("%q: got %q, want one token", name, tokens)
		}
	}
}

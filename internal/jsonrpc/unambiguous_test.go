package jsonrpc_test

import (
	"testing"

	"mcpschedd/internal/jsonrpc"
)

func TestUnambiguous(t *testing.T) {
	for obj, want := range map[string]bool{
		`{}`:                            true,
		`{"a":1,"b":{"a":1}}`:           true,
		`{"a":{"b":1,"b":2}}`:           true, // only its own members
		`{"a":1,"a":1}`:                 false,
		`{"a":1,"b":2,"A":3}`:           false,
		`{"a":1,"\u0041":3}`:            false,
		`{"k":1,"\u212a":2}`:            false, // the sign for kelvin is a k to Go
		`{"stra\u00dfe":1,"STRASSE":2}`: true,
	} {
		if got := jsonrpc.Unambiguous([]byte(obj)); got != want {
			t.Errorf("%s: got %v, want %v", obj, got, want)
		}
	}
}

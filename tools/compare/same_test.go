package main

import (
	"encoding/json"
	"testing"
)

func TestFirstDifference(t *testing.T) {
	tests := []struct {
		name              string
		want, got, prefix string
		difference        string
	}{
		{"space and escapes say nothing", `{"a": "é<", "b":[1 ,2]}`, `{"a":"\u00e9\u003c","b":[1,2]}`, "", ""},
		{"order of members", `{"a":1,"b":2}`, `{"b":2,"a":1}`, "", `/a: got "b", want "a"`},
		{"digits of a big integer", `{"n":9007199254740993}`, `{"n":9007199254740992}`, "", `/n: got 9007199254740992, want 9007199254740993`},
		{"how a number is written", `[1.0]`, `[1]`, "", `/0: got 1, want 1.0`},
		{"number and text", `[1]`, `["1"]`, "", `/0: got "1", want 1`},
		{"a member lost", `{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, "", `/a/c: got }, want "c"`},
		{"a member added", `{"a":[{"b":1}]}`, `{"a":[{"b":1,"c":null}]}`, "", `/a/0/c: got "c", want }`},
		{"null and nothing", `{"a":null}`, `{}`, "", `/a: got }, want "a"`},
		{"an element lost", `{"a":[1,[2,3]]}`, `{"a":[1,[2]]}`, "", `/a/1/1: got ], want 3`},
		{"an element after a nested one", `[[1],{"x":2},3]`, `[[1],{"x":2},4]`, "", `/2: got 4, want 3`},
		{"names that need escapes", `{"a/b":{"~":1}}`, `{"a/b":{"~":2}}`, "", `/a~1b/~0: got 2, want 1`},
		{"a member twice", `{"a":1,"a":2}`, `{"a":1,"a":3}`, "", `/a: got 3, want 2`},
		{"nothing at all", `{}`, ``, "", `: got nothing, want {`},
		{"more behind it", `1`, `1 2`, "", `: got 2, want nothing`},
		{"prefix", `{"name":"t","x":{"name":"t"}}`, `{"name":"s__t","x":{"name":"t"}}`, "s__", ""},
		{"prefix missing", `{"name":"t"}`, `{"name":"t"}`, "s__", `/name: got "t", want "s__t"`},
		{"prefix where none belongs", `{"name":"t","title":"t"}`, `{"name":"s__t","title":"s__t"}`, "s__", `/title: got "s__t", want "t"`},
		{"a member's name is no value", `{"a":"name","name":"t"}`, `{"a":"name","name":"s__t"}`, "s__", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := firstDifference([]byte(tt.want), []byte(tt.got), tt.prefix); got != tt.difference {
				t.Errorf("got %q, want %q", got, tt.difference)
			}
		})
	}
}

func TestCapabilitiesMayGrowAndNotShrink(t *testing.T) {
	tests := []struct{ name, want, got, missing string }{
		{"more is allowed", `{"tools":{}}`, `{"tools":{"listChanged":true},"logging":{}}`, ""},
		{"false may become true", `{"tools":{"listChanged":false}}`, `{"tools":{"listChanged":true}}`, ""},
		{"true may not become false", `{"tools":{"listChanged":true}}`, `{"tools":{"listChanged":false}}`, `/tools/listChanged: got false, want true`},
		{"one lost", `{"logging":{}}`, `{}`, `/logging: got nothing, want map[]`},
		{"deep", `{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":2}}}`, `/a/b/c: got 2, want 1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want, got any
			for text, v := range map[string]*any{tt.want: &want, tt.got: &got} {
				if err := json.Unmarshal([]byte(text), v); err != nil {
					t.Fatal(err)
				}
			}
			if got := missing(want, got, ""); got != tt.missing {
				t.Errorf("got %q, want %q", got, tt.missing)
			}
		})
	}
}

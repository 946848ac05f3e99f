package schema_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mcpschedd/internal/schema"
)

// For any schema and arguments the result is one line and reproducible, and the validator does
// not panic.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		issues, `{}`, `true`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`,
		`{"$id":"http://x/y","properties":{"a":{"$id":"z","$anchor":"q","$ref":"#q"}},"unevaluatedProperties":{"$ref":"y#/properties/a"}}`,
		`{"$schema":"http://json-schema.org/draft-04/schema#","id":"#a","dependencies":{"a":["b"],"c":{"not":{}}},"items":[{},{}],"additionalItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"if":true,"then":{"contains":{"minimum":1e3}},"minContains":2}`,
		`{"patternProperties":{"^(a|b)+$":{"const":1.0}},"propertyNames":{"pattern":"x{3}"},"enum":[{"a":1},null,"\ud800"]}`,
	} {
		f.Add([]byte(s), []byte(`{"owner":"o","repo":"r","a":[1,"x",{"b":null}]}`))
	}
	f.Fuzz(func(t *testing.T, raw, arguments []byte) {
		s, err := schema.Compile(raw)
		oneLine(t, err)
		if (s == nil) != (err != nil) {
			t.Errorf("got schema %v, error %v", s, err)
		}
		first := s.Check(arguments)
		oneLine(t, first)
		again, err := schema.Compile(raw)
		oneLine(t, err)
		if second := again.Check(arguments); text(first) != text(second) {
			t.Errorf("Check(%s): got %v, then %v", arguments, first, second)
		}
		if first == nil && !json.Valid(arguments) {
			t.Errorf("%q: no error, and no JSON", arguments)
		}
	})
}

// A small schema against the same rules written out by hand.
func FuzzCheck(f *testing.F) {
	s, err := schema.Compile([]byte(`{
		"properties": {
			"n": {"type": "integer", "minimum": -3, "maximum": 12},
			"s": {"type": ["string", "null"], "maxLength": 3},
			"l": {"type": "array", "items": {"type": "boolean"}, "minItems": 1}
		},
		"required": ["n"],
		"additionalProperties": false
	}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"n":1,"s":"abc","l":[true]}`))
	f.Add([]byte(`{"n":12.0,"s":null}`))
	f.Add([]byte(`{"n":1e1,"l":[]}`))
	f.Add([]byte(`{"s":"äöüß"}`))
	f.Fuzz(func(t *testing.T, arguments []byte) {
		var v map[string]any
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.UseNumber()
		if err := d.Decode(&v); err != nil || !json.Valid(arguments) || !utf8.Valid(arguments) || v == nil {
			if s.Check(arguments) == nil {
				t.Errorf("%q: no error, and no object", arguments)
			}
			return
		}
		got := s.Check(arguments)
		if strings.HasPrefix(text(got), "arguments:") {
			return // outside the range checked
		}
		if want := fits(v); (got == nil) != want {
			t.Errorf("%s: got %v, want fitting: %t", arguments, got, want)
		}
	})
}

// whole are the allowed values of n.
var whole = []int64{-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}

// fits reports whether the members satisfy FuzzCheck's schema.
func fits(v map[string]any) bool {
	for name, member := range v {
		ok := false
		switch name {
		case "n":
			n, number := member.(json.Number)
			ok = number && slices.ContainsFunc(whole, func(i int64) bool { // a float64 would round
				r, _ := new(big.Rat).SetString(n.String())
				return r.Cmp(big.NewRat(i, 1)) == 0
			})
		case "s":
			s, isText := member.(string)
			ok = member == nil || isText && utf8.RuneCountInString(s) <= 3
		case "l":
			var l []any
			l, ok = member.([]any)
			ok = ok && len(l) > 0
			for _, e := range l {
				_, boolean := e.(bool)
				ok = ok && boolean
			}
		}
		if !ok {
			return false
		}
	}
	_, there := v["n"]
	return there
}

func oneLine(t *testing.T, err error) {
	t.Helper()
	s := text(err)
	if len(s) > 700 || strings.ContainsAny(s, "\n\r") || strings.Contains(s, "the validator failed") {
		t.Errorf("got error %q", s)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

package schema_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/schema"
)

// doubling is a schema of less than a kilobyte that asks 2^depth times about n.
func doubling(depth int, combines string) string {
	return `{"properties":{"n":{"$ref":"#/$defs/0"}},"$defs":{` +
		list(depth, `"%d":{"`+combines+`":[{"$ref":"#/$defs/%d"},{"$ref":"#/$defs/%[2]d"}]}`) + fmt.Sprintf(`,"%d":{"type":"string"}}}`, depth)
}

// A schema bomb that was small enough to pass once took 0.4 s for each check.
func TestSmallBombs(t *testing.T) {
	for _, combines := range []string{"allOf", "anyOf", "oneOf"} {
		t.Run(combines, func(t *testing.T) {
			check(t, compiled(t, doubling(14, combines)), `{"n":7}`, "arguments: too much work to check")
			check(t, compiled(t, doubling(14, combines)), `{}`, "")
		})
	}
	check(t, compiled(t, doubling(4, "allOf")), `{"n":7}`, "n: want string, have number")
}

// dear are schemas and arguments of a size, for each kind of work there is: nothing
// fits, and the larger the size the longer it takes to say so.
var dear = []struct {
	name string
	of   func(n int) (schema, arguments string)
}{
	{"forms", func(n int) (string, string) {
		return `{"$defs":{"x":{"type":"string"}},"properties":{"a":{"allOf":[` + list(n, `{"$ref":"#/$defs/x"}`) + `]}}}`, `{"a":7}`
	}},
	{"elements", elements(`{"type":"string"}`, "1")},
	{"forms of elements", elements(`{"oneOf":[{"type":"string"},{"type":"null"},{"type":"array"},{"type":"object"}]}`, "1")},
	{"whole numbers", elements(`{"type":"integer","minimum":1000}`, "1")},
	{"multiples", elements(`{"multipleOf":3e-400,"minimum":1e399,"maximum":1e-399}`, strings.Repeat("7", 390))},
	{"numbers to choose from", elements(`{"enum":[`+list(50, "%d")+`]}`, "-1")},
	{"objects to choose from", elements(`{"enum":[`+list(300, `{"a":{"b":%d}}`)+`]}`, `{"a":{"b":-1}}`)},
	{"required", elements(`{"required":[`+list(1000, `"abc%d"`)+`]}`, `{}`)},
	{"required beside another", elements(`{"dependentRequired":{"a":[`+list(1000, `"abc%d"`)+`]}}`, `{"a":1}`)},
	{"beside many others", elements(`{"dependentSchemas":{`+list(500, `"a%d":{}`)+`}}`, `1`)},
	{"names", func(n int) (string, string) { return `{"propertyNames":{"maxLength":1}}`, members(n, "a%d") }},
	{"names that are not allowed", func(n int) (string, string) { return `{"additionalProperties":false}`, members(n, "a%d") }},
	{"the same deep down", func(n int) (string, string) {
		return strings.Repeat(`{"properties":{"a":`, 45) + `{"additionalProperties":false}` + strings.Repeat("}}", 45),
			strings.Repeat(`{"a":`, 45) + members(n, "a%d") + strings.Repeat("}", 45)
	}},
	{"names by pattern", func(n int) (string, string) {
		return `{"patternProperties":{` + list(20, `"x%d":{}`) + `}}`, members(n, "axaxax%d")
	}},
	{"a pattern", func(n int) (string, string) {
		return `{"properties":{"a":{"pattern":"(x+x+){50}y"}}}`, `{"a":"` + strings.Repeat("x", n) + `"}`
	}},
	{"what nothing else speaks of", func(n int) (string, string) {
		return `{"properties":{"x":{"anyOf":[` + list(50, `{"anyOf":[{"prefixItems":[{}]}]}`) + `],"unevaluatedItems":false}}}`, `{"x":[` + list(n, `1`) + `]}`
	}},
	{"elements that are to differ", func(n int) (string, string) {
		return `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[` + list(20, "["+list(n, "1")+",%d]") + `]}`
	}},
	{"long texts", elements(`{"minLength":3000}`, `"`+strings.Repeat("ä", 500)+`"`)},
	{"reading them", func(n int) (string, string) { return `{"properties":{"b":{}}}`, members(n, "a%d") }},
}

func elements(wants, element string) func(n int) (string, string) {
	return func(n int) (string, string) {
		return `{"properties":{"a":{"items":` + wants + `}}}`, `{"a":[` + list(n, element) + `]}`
	}
}

func members(n int, name string) string { return `{` + list(n, `"`+name+`":1`) + `}` }

// largest is the largest size that is still checked.
func largest(tb testing.TB, of func(n int) (string, string)) (*schema.Schema, []byte) {
	tb.Helper()
	low, high := 1, 9000
	for low < high {
		n := (low + high + 1) / 2
		raw, arguments := of(n)
		s, err := schema.Compile([]byte(raw))
		if err != nil || schema.Cost(s, []byte(arguments), 2*schema.MaxEffort) > schema.MaxEffort {
			high = n - 1
		} else {
			low = n
		}
	}
	raw, arguments := of(low)
	s, err := schema.Compile([]byte(raw))
	if err != nil {
		tb.Fatal(err)
	}
	return s, []byte(arguments)
}

// Whatever the work consists of, a size comes at which it is too much. That is the
// case for each that BenchmarkDearest measures.
func TestAllWorkIsCounted(t *testing.T) {
	for _, test := range dear {
		t.Run(test.name, func(t *testing.T) {
			few, arguments := test.of(1)
			one := schema.Cost(compiled(t, few), []byte(arguments), 1<<30)
			more, arguments := test.of(20)
			twenty := schema.Cost(compiled(t, more), []byte(arguments), 1<<30)
			if twenty < one+20 {
				t.Errorf("got %d units for one and %d for twenty, want that to be counted", one, twenty)
			}
		})
	}
}

// The dearest arguments of each kind that are still checked: ns/unit is to be under
// 100, and so none takes over 5 ms.
func BenchmarkDearest(b *testing.B) {
	for _, test := range dear {
		b.Run(test.name, func(b *testing.B) {
			s, arguments := largest(b, test.of)
			units := schema.Cost(s, arguments, schema.MaxEffort)
			for b.Loop() {
				_ = s.Check(arguments)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(units), "ns/unit")
		})
	}
}

func TestCheckWithin(t *testing.T) {
	s := compiled(t, issues)
	good, bad := []byte(`{"owner":"o","repo":"r"}`), []byte(`{"owner":"o"}`)
	takes := schema.Cost(s, good, schema.MaxEffort)
	if takes <= 0 || takes > 1000 {
		t.Fatalf("got %d units, want a few hundred at most", takes)
	}
	left := 3 * takes
	for range 2 {
		if err := s.CheckWithin(good, &left); err != nil {
			t.Fatal(err)
		}
	}
	if left != takes {
		t.Errorf("got %d units left, want %d", left, takes)
	}
	if err := s.CheckWithin(bad, &left); err == nil || errors.Is(err, schema.ErrSpent) {
		t.Errorf("got %v, want what is wrong", err)
	}
	for range 100 { // what was not checked costs little, and never nothing
		before := left
		if err := s.CheckWithin(good, &left); !errors.Is(err, schema.ErrSpent) {
			t.Fatalf("with %d units: got %v, want that they are not enough", before, err)
		}
		if before > 0 && left >= before {
			t.Fatalf("got %d units left of %d", left, before)
		}
	}
	if left > 0 || left < -takes {
		t.Errorf("got %d units left", left)
	}
}

// What is too much by itself is no matter of how much is left: it will be the same
// the next time.
func TestTooMuchIsNotSpent(t *testing.T) {
	left := 10 * schema.MaxEffort
	err := compiled(t, doubling(14, "allOf")).CheckWithin([]byte(`{"n":7}`), &left)
	if err == nil || errors.Is(err, schema.ErrSpent) || left <= 9*schema.MaxEffort || left >= 10*schema.MaxEffort {
		t.Errorf("got %v and %d units left, want that it is too much, and a part of it taken off", err, left)
	}
}

func TestWrongType(t *testing.T) {
	for _, c := range []struct {
		name, schema, arguments string
		member                  string // "": something else is wrong
		want                    []string
	}{
		{"a number for a text", `{"properties":{"a":{"type":"string"}}}`, `{"a":1}`, "a", []string{"string"}},
		{"for a text or nothing", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`, "a", []string{"null", "string"}},
		{"for one of several texts", `{"properties":{"a":{"enum":["1","2"]}}}`, `{"a":1}`, "a", []string{"string"}},
		{"for a certain text", `{"properties":{"a":{"const":"1"}}}`, `{"a":1}`, "a", []string{"string"}},
		{"none of several texts", `{"properties":{"a":{"enum":["1","2"]}}}`, `{"a":"3"}`, "", nil},
		{"none of several things", `{"properties":{"a":{"enum":["1",2]}}}`, `{"a":3}`, "", nil},
		{"by a reference", `{"$defs":{"a":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/a"}}}`, `{"a":"1"}`, "a", []string{"integer"}},
		{"too small", `{"properties":{"a":{"minimum":3}}}`, `{"a":1}`, "", nil},
		{"missing first", `{"properties":{"b":{"type":"string"}},"required":["a"]}`, `{"b":1}`, "", nil},
		{"further in", `{"properties":{"a":{"properties":{"b":{"type":"string"}}}}}`, `{"a":{"b":1}}`, "", nil},
		{"the arguments themselves", `{"type":"array"}`, `{}`, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := compiled(t, c.schema).Check([]byte(c.arguments))
			wrong, ok := errors.AsType[*schema.WrongType](err)
			switch {
			case err == nil:
				t.Error("no error")
			case ok != (c.member != ""):
				t.Errorf("got %v, a wrong type: %t, want %t", err, ok, c.member != "")
			case ok && (wrong.Member != c.member || !slices.Equal(wrong.Want, c.want)):
				t.Errorf("got %q and %q, want %q and %q", wrong.Member, wrong.Want, c.member, c.want)
			}
		})
	}
}

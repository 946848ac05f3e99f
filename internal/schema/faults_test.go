package schema_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/schema"
)

// All faults are reported at once. One at a time would cost the client a turn for each.
func TestFaultsAllAtOnce(t *testing.T) {
	for _, c := range []struct{ name, schema, arguments, want string }{
		{"nothing", issues, `{"owner":"o","repo":"r"}`, ""},
		{"two of another type", `{"properties":{"n":{"type":"integer"},"text":{"type":"string"}}}`, `{"n":"x","text":5}`, "n: want integer, have string\ntext: want string, have number"},
		{"all that are missing", issues, `{}`, "owner: missing\nrepo: missing"},
		{"all that are not known", issues, `{"owner":"o","repo":"r","y":1,"x":2}`, "x: not allowed\ny: not allowed"},
		{"of all kinds", issues, `{"repo":7,"x":1,"labels":["a",2]}`, "labels.1: want string, have number\nowner: missing\nrepo: want string, have number\nx: not allowed"},
		{"the same from two parts", `{"allOf":[{"required":["a"]},{"required":["a","b"]}]}`, `{}`, "a: missing\nb: missing"},
		{"within the form that was meant", `{"properties":{"a":{"anyOf":[{"type":"null"},{"required":["x","y"]}]}}}`, `{"a":{}}`, "a.x: missing\na.y: missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := lines(compiled(t, c.schema).Faults([]byte(c.arguments), nil)); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// At most twenty faults are reported.
func TestFaultsBounded(t *testing.T) {
	for name, arguments := range map[string]string{
		"missing":       `{}`,
		"not known":     members(900, "x%03d"),
		"of both kinds": members(15, "x%03d"),
	} {
		all := compiled(t, `{"required":[`+list(500, `"m%03d"`)+`],"additionalProperties":false}`).Faults([]byte(arguments), nil)
		if len(all) != 20 || all[0].Path[0] != "m000" || all[19].Path[0] != "m019" {
			t.Errorf("%s: got %d, from %v to %v", name, len(all), all[0], all[len(all)-1])
		}
	}
}

// For random schemas, Check returns the first fault of Faults, and no fault is reported twice.
func TestFaultsAgreeWithCheck(t *testing.T) {
	wrong, several := 0, 0
	for seed := range uint64(200) {
		g := generator{rand.New(rand.NewPCG(seed, 11))}
		s, err := schema.Compile([]byte(g.schema(3)))
		if err != nil {
			continue // too large
		}
		arguments := g.fill(g.path(), g.pick("null", "1", `"a"`, "[]", `{"a":1}`))
		all := s.Faults(arguments, nil)
		first := ""
		if len(all) > 0 {
			first = all[0].Error()
			wrong++
		}
		if got := text(s.Check(arguments)); got != first && !strings.HasSuffix(got, "too expensive to check") {
			t.Fatalf("seed %d: %s: Check reports %q, the first fault is %q", seed, arguments, got, first)
		}
		told := strings.Split(lines(all), "\n")
		slices.Sort(told)
		if len(slices.Compact(told)) < len(all) {
			t.Fatalf("seed %d: %s: a fault is reported twice: %v", seed, arguments, all)
		}
		if len(all) > 1 {
			several++
		}
	}
	if wrong < 100 || several < 30 {
		t.Errorf("%d wrong, %d in several places: the test proves little", wrong, several)
	}
}

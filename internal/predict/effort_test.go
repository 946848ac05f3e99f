package predict_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// repeated returns a schema that requires each of the properties to match wants n times.
func repeated(n int, wants string, names ...string) string {
	each := `{"allOf":[` + strings.TrimSuffix(strings.Repeat(wants+",", n), ",") + `]}`
	var all []string
	for _, name := range names {
		all = append(all, `"`+name+`":`+each)
	}
	return `{"type":"object","properties":{` + strings.Join(all, ",") + `}}`
}

// rows returns n items with consecutive numbers.
func rows(first, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"n":%d,"o":%[1]d,"p":%[1]d}`, first+i))
	}
	return `{"items":[` + strings.Join(all, ",") + `]}`
}

// eight raises the maximum of a follow-up to eight calls per result.
func eight(f valuemodel.FollowUp) valuemodel.FollowUp {
	f.Max = 8
	return f
}

var things = []any{"n", "$result.items[*].n", "o", "$result.items[*].o", "p", "$result.items[*].p"}

// The checks of one result have a bounded effort, even with the most expensive schemas. Before
// there was a bound, one result once kept the worker busy for seconds.
func TestEffortForOneAnswerIsBounded(t *testing.T) {
	for _, test := range []struct{ name, schema string }{
		{"all fit", repeated(450, `{"type":"integer"}`, "n", "o", "p")},
		{"each could be retyped", repeated(450, `{"type":"string"}`, "n", "o", "p")},
		{"none fits, retyped or not", repeated(450, `{"type":"boolean"}`, "n", "o", "p")},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := resolve(t, hub, []valuemodel.Rule{reading("list", eight(follow(t, "get", 0.4, things...))), reading("get")}, "list", "", "get", test.schema)
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", `{}`, rows(10, 8))
			refused := 0
			for _, g := range p.candidates() {
				if g.Reason == enrich.Schema {
					refused++
				}
			}
			if left := predict.EffortLeft(p.f); left < -schema.MaxEffort/10 || left > predict.MaxEffort/2 {
				t.Errorf("got %d units left of %d, want nearly none left", left, predict.MaxEffort)
			}
			if refused == 0 {
				t.Error("no candidate was declined, want some")
			}
		})
	}
}

// A configured call that was not checked, as the effort for the result was spent, is checked later.
func TestUncheckedIsCheckedLater(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", eight(follow(t, "get", 0.4, things...))), reading("get")}, "list", "", "get", repeated(450, `{"type":"integer"}`, "n", "o", "p"))
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", `{}`, rows(10, 8))
	if got := made(p.candidates(), "get"); len(got) == 0 || len(got) == 8 {
		t.Fatalf("got %d of 8 candidates at first, want some", len(got))
	}
	for range 8 {
		p.candidates()
	}
	if got := made(p.candidates(), "get"); len(got) != 8 {
		t.Errorf("got %d of 8 candidates later, want all", len(got))
	}
}

// A value is converted to the other type only if its type is the reason why the schema rejects it.
func TestRetypedForItsTypeAlone(t *testing.T) {
	for _, test := range []struct {
		name, schema, want string
	}{
		{"all are", `{"properties":{"n":{"type":"string"},"o":{"type":"string"},"p":{"type":"string"}}}`, `{"n":"7","o":"7","p":"7"}`},
		{"one is", `{"properties":{"o":{"enum":["7","8"]}}}`, `{"n":7,"o":"7","p":7}`},
		{"something is missing", `{"required":["m"]}`, ""},
		{"another has to be neither", `{"properties":{"n":{"type":"boolean"},"o":{"type":"string"}}}`, ""},
		{"it is too small", `{"properties":{"n":{"minimum":8}}}`, ""},
		{"and too small then", `{"properties":{"n":{"type":"string","minLength":2}}}`, ""},
		{"it has another form", `{"oneOf":[{"properties":{"n":{"type":"string"}},"required":["x"]},{"required":["y"]}]}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := resolve(t, hub, []valuemodel.Rule{reading("list", eight(follow(t, "get", 0.4, things...))), reading("get")}, "list", "", "get", test.schema)
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", `{}`, rows(7, 1))
			if got := strings.Join(made(p.candidates(), "get"), " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

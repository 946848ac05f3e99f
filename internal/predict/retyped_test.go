package predict_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

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
			o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.4, "n", "$result.n", "o", "$result.o", "p", "$result.p")), reading("get")}, "list", "", "get", test.schema)
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", `{}`, `{"n":7,"o":7,"p":7}`)
			if got := strings.Join(made(p.candidates(), "get"), " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

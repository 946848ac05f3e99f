package valuemodel_test

import (
	"encoding/json"
	"testing"

	"mcpschedd/internal/valuemodel"
)

// resolve makes the model of a tool under rules that are all well.
func resolve(t testing.TB, u valuemodel.Upstream, tool string, h valuemodel.Hints, learned valuemodel.Layer, rules ...valuemodel.Rule) *valuemodel.Model {
	t.Helper()
	m, problems := valuemodel.Compile(rules)
	if problems != nil {
		t.Fatalf("rules: %v", problems)
	}
	return m.Resolve(u, tool, h, learned)
}

func rule(pattern, source string, l valuemodel.Layer) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: source, Layer: l}
}

// arguments are those of an object; of "" none.
func arguments(t testing.TB, object string) valuemodel.Arguments {
	t.Helper()
	var members map[string]json.RawMessage
	if object != "" {
		if err := json.Unmarshal([]byte(object), &members); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
	}
	return func(name string) []byte { return members[name] }
}

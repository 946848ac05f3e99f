package valuemodel_test

import (
	"encoding/json"
	"iter"
	"maps"
	"testing"

	"mcpschedd/internal/valuemodel"
)

// resolve compiles rules, which must be valid, and resolves a tool.
func resolve(t testing.TB, u valuemodel.Upstream, tool string, h valuemodel.Hints, rules ...valuemodel.Rule) *valuemodel.Model {
	t.Helper()
	m, problems := valuemodel.Compile(rules)
	if problems != nil {
		t.Fatalf("rules: %v", problems)
	}
	return m.Resolve(u, tool, h)
}

func rule(pattern, source string, l valuemodel.Layer) valuemodel.Rule {
	return valuemodel.Rule{Pattern: pattern, Source: source, Layer: l}
}

// unknown are the arguments of a call with none, or with unknown ones.
func unknown(string) []byte { return nil }

// arguments returns the arguments in an object; none for "".
func arguments(t testing.TB, object string) valuemodel.Arguments {
	t.Helper()
	all := members(t, object)
	return func(name string) []byte { return all[name] }
}

// memberNames returns the names of an object's members.
func memberNames(t testing.TB, object string) iter.Seq[string] {
	t.Helper()
	return maps.Keys(members(t, object))
}

func members(t testing.TB, object string) map[string]json.RawMessage {
	t.Helper()
	var members map[string]json.RawMessage
	if object == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	return members
}

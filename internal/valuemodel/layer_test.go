package valuemodel_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/valuemodel"
)

// field is a field of a layer, with two values that differ from its default.
type field struct {
	key      string // key in Sources
	a, b     any
	provided bool // whether a provider's table sets it
}

var fields = map[string]field{
	"ValueClass":      {key: "value_class", a: valuemodel.Critical, b: valuemodel.Optional, provided: true},
	"Class":           {key: "side_effect_class", a: valuemodel.Pure, b: valuemodel.ReadOnly, provided: true},
	"Classify":        {key: "classify", a: valuemodel.Shell, b: valuemodel.SQL, provided: true},
	"Host":            {key: "rate_limit_host", a: "a.example", b: "b.example", provided: true},
	"Speculate":       {key: "speculate", a: new(false), b: new(true), provided: true},
	"Disclosure":      {key: "disclosure", a: valuemodel.ThirdParty, b: valuemodel.SameService, provided: true},
	"Volatile":        {key: "volatile", a: new(true), b: new(false), provided: true},
	"FailFastAfter":   {key: "fail_fast_after_n", a: 7, b: 8, provided: true},
	"InvalidatesOnly": {key: "invalidates_only", a: new(true), b: new(false)},
	"Validate.File":   {key: "validate", a: "one", b: "two", provided: true},
	"URLArgument":     {key: "url_argument", a: "one", b: "two", provided: true},
	"Cost.TypicalKB":  {key: "cost_model.typical_kb", a: 1.5, b: 2.5, provided: true},
	"Cost.MaxKB":      {key: "cost_model.max_kb", a: 11.5, b: 12.5, provided: true},
	"Cost.Latency":    {key: "cost_model.latency_ms_p50", a: time.Second, b: time.Minute},
	"Cost.Dollars":    {key: "cost_model.dollars", a: 0.1, b: 0.2},
	"Cost.Freshness":  {key: "cost_model.freshness_ttl_s", a: time.Second, b: time.Minute, provided: true},
}

// merged are the fields that add up over layers. They have tests of their own.
var merged = []string{"Invalidates", "FieldGroups", "FollowUps"}

func (f field) layer(name string, value any) valuemodel.Layer {
	var l valuemodel.Layer
	at(&l, name).Set(reflect.ValueOf(value))
	return l
}

func at(l *valuemodel.Layer, name string) reflect.Value {
	v := reflect.ValueOf(l).Elem()
	for part := range strings.SplitSeq(name, ".") {
		v = v.FieldByName(part)
	}
	return v
}

// reading returns rules that make the field matter: they make the tool read-only, so that
// speculate does not depend on the class, or give it an edge.
func (f field) reading(name string) []valuemodel.Rule {
	switch name {
	case "Class", "Classify":
		return nil
	case "InvalidatesOnly":
		return []valuemodel.Rule{rule("*", "edged", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "x"}}})}
	}
	return []valuemodel.Rule{rule("*", "reads", valuemodel.Layer{Class: valuemodel.ReadOnly})}
}

func (f field) want(t *testing.T, m *valuemodel.Model, name string, value any, source string) {
	t.Helper()
	if diff := cmp.Diff(value, at(&m.Layer, name).Interface()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if m.Sources[f.key] != source {
		t.Errorf("%s: got source %q, want %q", name, m.Sources[f.key], source)
	}
}

func TestEveryFieldHasACase(t *testing.T) {
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for f := range typ.Fields() {
			name := prefix + f.Name
			_, tested := fields[name]
			switch {
			case f.Type.Kind() == reflect.Struct:
				walk(name+".", f.Type)
			case !tested && !slices.Contains(merged, name):
				t.Errorf("%s: no case", name)
			}
		}
	}
	walk("", reflect.TypeFor[valuemodel.Layer]())
}

// Among the operator's rules a full name has priority over a bare one, a bare one over globs, a
// glob with more literal characters over one with fewer, a later rule over an earlier one, and all
// over "*", in whatever order they are.
func TestRulesGiveWayInOrder(t *testing.T) {
	ladder := []string{"*", "?*", "up/*", "up/get_*", "*get_thing", "get_thing", "up/get_thing"}
	for name, f := range fields {
		if name == "Speculate" { // its priority differs
			continue
		}
		t.Run(name, func(t *testing.T) {
			for i, low := range ladder {
				for _, high := range ladder[i+1:] {
					a, b := rule(low, "low", f.layer(name, f.a)), rule(high, "high", f.layer(name, f.b))
					for _, rules := range [][]valuemodel.Rule{{a, b}, {b, a}} {
						m := resolve(t, valuemodel.Upstream{Name: "up"}, "get_thing", valuemodel.Hints{}, append(f.reading(name), rules...)...)
						f.want(t, m, name, f.b, "high")
					}
				}
				m := resolve(t, valuemodel.Upstream{Name: "up"}, "get_thing", valuemodel.Hints{}, append(f.reading(name),
					rule(low, "earlier", f.layer(name, f.a)), rule(low, "later", f.layer(name, f.b)))...)
				f.want(t, m, name, f.b, "later")
			}
		})
	}
}

// provided returns a tool for which a provider's table sets the field.
func provided(name string) (provider, tool string, value any) {
	for _, p := range allProviders() {
		if p.Stateful || p.Name == "claude-code" { // its layer has another source
			continue
		}
		for tool, l := range p.Tools {
			if v := at(&l, name); !v.IsZero() && tool != "*" && (l.Class.Reads() || l.Classify != "") {
				return p.Name, tool, v.Interface()
			}
		}
	}
	return "", "", nil
}

func TestLayersInOrder(t *testing.T) {
	for name, f := range fields {
		t.Run(name, func(t *testing.T) {
			provider, tool, value := provided(name)
			if f.provided != (provider != "") {
				t.Fatalf("set by a provider: %v, want %v", provider != "", f.provided)
			}
			u := valuemodel.Upstream{Name: "up", Provider: provider}
			if provider != "" {
				f.want(t, resolve(t, u, tool, valuemodel.Hints{}), name, value, "provider "+provider)
			} else {
				tool = "thing"
				if source := resolve(t, u, tool, valuemodel.Hints{}, f.reading(name)...).Sources[f.key]; source != "default" && source != "" {
					t.Errorf("got source %q, want the default", source)
				}
			}
			f.want(t, resolve(t, u, tool, valuemodel.Hints{}, append(f.reading(name), rule("*", "c.toml:7", f.layer(name, f.a)))...), name, f.a, "c.toml:7")
		})
	}
}

func TestDefaults(t *testing.T) {
	m := resolve(t, valuemodel.Upstream{Name: "up"}, "thing", valuemodel.Hints{})
	want := valuemodel.Layer{
		ValueClass: valuemodel.Supporting, Class: valuemodel.Indeterminate, Host: "upstream:up",
		Speculate: new(false), Disclosure: valuemodel.SameService, Volatile: new(false), InvalidatesOnly: new(false),
		Cost: valuemodel.Cost{TypicalKB: 4, MaxKB: 40, Latency: 450 * time.Millisecond},
	}
	if diff := cmp.Diff(want, m.Layer); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for key, source := range m.Sources {
		if source != "default" {
			t.Errorf("%s: got source %q", key, source)
		}
	}
	if m.BackOff || m.Provider != "" {
		t.Errorf("got back-off %v, provider %q", m.BackOff, m.Provider)
	}
}

// Only with the operator's fail_fast_after_n a cached answer may replace the next one.
func TestBackOffIsTheOperators(t *testing.T) {
	reads := rule("*", "r", valuemodel.Layer{Class: valuemodel.ReadOnly})
	five := valuemodel.Layer{FailFastAfter: 5}
	tests := []struct {
		name    string
		rules   []valuemodel.Rule
		after   int
		backOff bool
	}{
		{"default", []valuemodel.Rule{reads}, 3, false},
		{"operator", []valuemodel.Rule{reads, rule("thing", "x", five)}, 5, true},
		{"a write", nil, 0, false},
	}
	for _, tt := range tests {
		m := resolve(t, valuemodel.Upstream{Name: "up"}, "thing", valuemodel.Hints{}, tt.rules...)
		if m.FailFastAfter != tt.after || m.BackOff != tt.backOff {
			t.Errorf("%s: got %d, %v, want %d, %v", tt.name, m.FailFastAfter, m.BackOff, tt.after, tt.backOff)
		}
		if source := m.Sources["fail_fast_after_n"]; strings.Contains(source, "hint") != (tt.after == 3) {
			t.Errorf("%s: got the source %q, want one that says whether it only hints", tt.name, source)
		}
	}
}

func TestEdgesOnlyAdd(t *testing.T) {
	edge := func(tool string, match ...string) valuemodel.Edge { return valuemodel.Edge{Tool: tool, Match: match} }
	layer := func(e ...valuemodel.Edge) valuemodel.Layer { return valuemodel.Layer{Invalidates: e} }
	m := resolve(t, valuemodel.Upstream{Name: "up"}, "write", valuemodel.Hints{},
		rule("*", "a:1", layer(edge("x", "b", "a"), edge("y"))),
		rule("write", "a:2", layer(edge("x", "a", "b", "a"), edge("x"))))
	if diff := cmp.Diff([]valuemodel.Edge{edge("x", "a", "b"), edge("y"), edge("x")}, m.Invalidates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m.Sources["invalidates.x same a, b"] != "a:2" || m.Sources["invalidates.x"] != "a:2" || m.Sources["invalidates.y"] != "a:1" {
		t.Errorf("got sources %v", m.Sources)
	}
	declared := resolve(t, valuemodel.Upstream{Name: "up", Provider: "filesystem"}, "write_file", valuemodel.Hints{},
		rule("up/*", "a:1", layer(edge("mine"))))
	own := providerNamed(t, "filesystem").Tools["write_file"].Invalidates
	if got, want := len(declared.Invalidates), len(own)+1; got != want {
		t.Errorf("got %d edges, want one more than the provider's %d", got, len(own))
	}
}

func TestFollowUpsMerge(t *testing.T) {
	bind := func(text string) map[string]valuemodel.Binding {
		b, err := valuemodel.ParseBinding(text)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]valuemodel.Binding{"id": b}
	}
	next := func(f ...valuemodel.FollowUp) valuemodel.Layer { return valuemodel.Layer{FollowUps: f} }
	lowest := next(
		valuemodel.FollowUp{Tool: "get", Probability: 0.2, Args: bind("$args.id"), Max: 2},
		valuemodel.FollowUp{Tool: "get", Probability: 0.3, Args: bind("$result[0].id")},
	)
	m := resolve(t, valuemodel.Upstream{Name: "up"}, "list", valuemodel.Hints{},
		rule("*", "a:0", lowest), rule("*", "a:1", next(valuemodel.FollowUp{Tool: "get", Args: bind("$args.id"), Max: 5}, valuemodel.FollowUp{Tool: "see", Probability: 1})),
		rule("list", "a:2", next(valuemodel.FollowUp{Tool: "get", Probability: 0.9, Args: bind("$args.id")})))
	want := []valuemodel.FollowUp{
		{Tool: "get", Probability: 0.9, Args: bind("$args.id"), Max: 5},
		{Tool: "get", Probability: 0.3, Args: bind("$result[0].id")},
		{Tool: "see", Probability: 1},
	}
	if diff := cmp.Diff(want, m.FollowUps); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if m.Sources["follow_up.get id=$args.id"] != "a:2" || m.Sources["follow_up.get id=$result[0].id"] != "a:0" || m.Sources["follow_up.see"] != "a:1" {
		t.Errorf("got sources %v", m.Sources)
	}
	if lowest.FollowUps[0].Probability != 0.2 {
		t.Error("a layer was modified")
	}
}

// A tuned value has less priority than any rule of the operator, even a more general one.
func TestTunedGivesWay(t *testing.T) {
	models, problems := valuemodel.Compile([]valuemodel.Rule{
		{Pattern: "hub/*", Source: "c.toml:1", Layer: valuemodel.Layer{Cost: valuemodel.Cost{TypicalKB: 7}}},
		{Pattern: "hub/get", Source: "tuned", Tuned: true, Layer: valuemodel.Layer{Cost: valuemodel.Cost{TypicalKB: 20, MaxKB: 90}}},
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := models.Resolve(valuemodel.Upstream{Name: "hub"}, "get", valuemodel.Hints{})
	if m.Cost.TypicalKB != 7 || m.Cost.MaxKB != 90 || m.Sources["cost_model.max_kb"] != "tuned" {
		t.Errorf("got %+v by %v", m.Cost, m.Sources)
	}
	if other := models.Resolve(valuemodel.Upstream{Name: "other"}, "get", valuemodel.Hints{}); other.Cost.MaxKB == 90 {
		t.Error("it applies to another upstream")
	}
}

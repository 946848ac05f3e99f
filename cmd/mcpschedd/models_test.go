package main

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/config"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/valuemodel"
)

const everyField = `[tools."hub/a"]
value_class = "critical"
side_effect_class = "indeterminate"
classify = "shell"
rate_limit_host = "API.example"
speculate = true
disclosure = "third_party"
volatile = true
fail_fast_after_n = 4
invalidates = ["b", { tool = "hub/c", match = ["id"] }]
invalidates_only = true
validate = { file = "path" }
[tools."hub/a".cost_model]
typical_kb = 1.5
max_kb = 3
latency_ms_p50 = 0.5
dollars = 0.25
freshness_ttl_s = 90
[tools."hub/a".field_groups.debug]
fields = ["*_url"]
estimated_value = 0.1
default_include = false
[[tools."hub/a".follow_up]]
tool = "b"
probability = 0.4
max = 3
args = { owner = "$args.owner", n = 7 }
[[tools."hub/a".follow_up]]
tool = "hub/c"
projection = "iid"
projection_arg = "key"
[tools."*"]
cost_model.freshness_ttl_s = 1e300
`

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("/c.toml", []byte(text), toolProblems)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRules holds that what a block says reaches the models, field by field.
func TestRules(t *testing.T) {
	got, problems := rules(parsed(t, everyField))
	want := []valuemodel.Rule{{
		Pattern: "hub/a", Source: "/c.toml:1",
		Layer: valuemodel.Layer{
			ValueClass: valuemodel.Critical, Class: valuemodel.Indeterminate, Classify: valuemodel.Shell,
			Host: "api.example", Speculate: new(true), Disclosure: valuemodel.ThirdParty, Volatile: new(true), FailFastAfter: 4,
			Invalidates:     []valuemodel.Edge{{Tool: "b"}, {Tool: "hub/c", Match: []string{"id"}}},
			InvalidatesOnly: new(true), ValidateFile: "path",
			Cost:        valuemodel.Cost{TypicalKB: 1.5, MaxKB: 3, Latency: 500 * time.Microsecond, Dollars: 0.25, Freshness: 90 * time.Second},
			FieldGroups: map[string]valuemodel.FieldGroup{"debug": {Fields: []string{"*_url"}, EstimatedValue: new(0.1), DefaultInclude: new(false)}},
			FollowUps: []valuemodel.FollowUp{
				{Tool: "b", Probability: 0.4, Max: 3, Args: map[string]valuemodel.Binding{
					"owner": {From: valuemodel.Args, Path: []valuemodel.Step{{Name: "owner"}}, Source: "$args.owner"},
					"n":     {Value: int64(7), Source: int64(7)},
				}},
				{Tool: "hub/c", Args: map[string]valuemodel.Binding{
					"key": {From: valuemodel.Result, Path: []valuemodel.Step{{Name: "iid", Deep: true}}, Source: "$result..iid"},
				}},
			},
		},
	}, {
		Pattern: "*", Source: "/c.toml:32",
		Layer: valuemodel.Layer{Cost: valuemodel.Cost{Freshness: math.MaxInt64}}, // as long as can be
	}}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("rules, problems %v (-want +got):\n%s", problems, diff)
	}
	for field, value := range reflect.ValueOf(got[0].Layer).Fields() {
		if value.IsZero() && field.Name != "URLArgument" { // no key says it
			t.Errorf("%s: got nothing; does rules leave it out?", field.Name)
		}
	}
}

func TestLimits(t *testing.T) {
	got := limits(parsed(t, `
[limits."API.example:8443"]
rate = 10
burst = 20
concurrency = 4
speculative_share = 0.25
speculative_per_hour = 7
[limits."*"]
concurrency = 2
`))
	want := map[string]limit.Rule{
		"api.example:8443": {Rate: 10, Burst: 20, Concurrency: 4, SpeculativeShare: 0.25, SpeculativePerHour: 7},
		"*":                {Concurrency: 2, SpeculativeShare: 0.5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// FuzzToolProblems holds that no file, however broken, is too much for what reads
// its values, and that what they find has a place in it.
func FuzzToolProblems(f *testing.F) {
	f.Add(everyField)
	f.Add("[tools.\"a/[\"]\nfollow_up = [{ args = { a = \"$args.[\" } }, 7]\ninvalidates = [\"\", { match = [\"\"] }]\n")
	f.Add("[upstreams.\"a.b\"]\nprovider = \"none\"\n[tools]\n\"x.y\" = { classify = \"sql\", side_effect_class = \"mutates_local\" }\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := config.Parse("/c.toml", []byte(text), toolProblems)
		bad, _ := errors.AsType[*config.Error](err)
		if err == nil {
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, p := range bad.Problems {
			if p.Line < 1 || p.Line > lines || p.Message == "" {
				t.Errorf("got %+v, want a place in a file of %d lines, and words", p, lines)
			}
		}
	})
}

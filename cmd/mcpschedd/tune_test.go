package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/config"
	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

// What is merged into a configuration loads, and is what the tools are then known by,
// unless the user has set it or it makes no sense beside what they have.
func TestTuneIsWhatResolves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quote := rapid.SampledFrom([]string{`"hub/list"`, `'hub/list'`}).Draw(t, "quote")
		text := rapid.SampledFrom([]string{
			"", "[tools.%s]\nspeculate = true # mine\n", "[tools.%s.cost_model]\ntypical_kb = 9 # mine\n", "tools.%s = { cost_model = { max_kb = 7 } }\n",
			"[tools]\n%s.cost_model.latency_ms_p50 = 5", "[[tools.%s.follow_up]]\ntool = \"get\"\nprobability = 0.9\n", "[tools.%s]\r\nfollow_up = [{ tool = \"x\" }]\r\n",
			"[tools.list]\nspeculate = true\n#%s\n",
		}).Draw(t, "text")
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, quote)
		}
		text += "\n[tools.\"hub/*\"]\nside_effect_class = \"read_only\"\n"
		p := rapid.Float64Range(0.01, 1).Draw(t, "p")
		typical, longest := rapid.Float64Range(0.1, 20).Draw(t, "typical"), rapid.Float64Range(0.1, 20).Draw(t, "longest")
		l := tune.Layer{Blocks: []tune.Block{{Tool: "hub/list", Lines: []tune.Line{
			{Key: "speculate", Value: "false"},
			{Key: "cost_model.typical_kb", Value: fmt.Sprint(typical)},
			{Key: "cost_model.max_kb", Value: fmt.Sprint(longest)},
			{Key: "cost_model.latency_ms_p50", Value: "120"},
			{Key: "follow_up", Value: fmt.Sprintf(`{ tool = "get", probability = %v, args = { n = "$result.items[*].n" }, max = 2 }`, p)},
			{Key: "cost_model.freshness_ttl_s", Value: "60", Advice: true},
		}}}}
		tuning := &tuning{stderr: io.Discard}
		m, err := tuning.merge("c.toml", []byte(text), l)
		if err != nil {
			t.Fatalf("%v, in:\n%s", err, text)
		}
		c, err := config.Parse("c.toml", m.Text, unmeant)
		if err != nil {
			t.Fatalf("%v, in:\n%s", err, m.Text)
		}
		compiled, _ := models(c)
		got := compiled.Resolve(valuemodel.Upstream{Name: "hub"}, "list", valuemodel.Hints{})
		for what, right := range map[string]bool{
			"speculate":       *got.Speculate == strings.Contains(text, "speculate = true"),
			"typical_kb":      got.Cost.TypicalKB == typical || strings.Contains(text, "typical_kb") || typical > 7 && strings.Contains(text, "max_kb") || typical > longest,
			"latency_ms_p50":  got.Cost.Latency.Milliseconds() == 120 || strings.Contains(text, "latency"),
			"freshness_ttl_s": got.Cost.Freshness == 0,
			"follow_up":       follows(got, p),
		} {
			if !right {
				t.Errorf("%s is not what was proposed, or set by hand:\n%s", what, m.Text)
			}
		}
		if again, err := tuning.merge("c.toml", m.Text, l); err != nil || again.Changes > 0 {
			t.Errorf("merged once more: %d changes, %v", again.Changes, err)
		}
	})
}

func follows(m *valuemodel.Model, p float64) bool {
	for _, f := range m.FollowUps {
		if b, ok := f.Args["n"]; ok && f.Probability == p && f.Max == 2 && b.String() == "$result.items[*].n" {
			return true
		}
	}
	return false
}

package demo_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/demo"
)

// settings are the parts of the demo's configuration that the tests use.
type settings struct {
	Enrichment struct {
		WasteMS float64 `toml:"waste_ms"`
	}
	Server struct {
		StateDir string `toml:"state_dir"`
	}
	Upstreams map[string]struct {
		Command string
		Args    []string
		Env     map[string]string
	}
	Tools map[string]struct {
		Class string `toml:"side_effect_class"`
		Cost  struct {
			TypicalKB float64 `toml:"typical_kb"`
			Latency   float64 `toml:"latency_ms_p50"`
			Freshness float64 `toml:"freshness_ttl_s"`
		} `toml:"cost_model"`
		FollowUps []followUp `toml:"follow_up"`
	}
}

type followUp struct {
	Tool        string
	Probability float64
	Args        map[string]any
}

func decode(t *testing.T, text string) settings {
	t.Helper()
	var s settings
	if _, err := toml.Decode(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The configuration of a run differs only in times and the servers' program.
func TestConfigurationOfARun(t *testing.T) {
	life, run := decode(t, demo.Config), decode(t, string(demo.Configuration(demo.Options{Speed: 8, Executable: "/opt/x \"y"}, "/tmp/state")))
	if run.Server.StateDir != "/tmp/state" || len(run.Upstreams) != 2 {
		t.Errorf("got state_dir %q, %d upstreams; want 2", run.Server.StateDir, len(run.Upstreams))
	}
	for name, u := range run.Upstreams {
		if u.Command != "/opt/x \"y" || u.Env["MCPSCHEDD_DEMO_SPEED"] != "8" || !slices.Equal(u.Args, []string{demo.UpstreamCommand, name}) {
			t.Errorf("upstream %s: got %+v, want this executable at speed 8", name, u)
		}
	}
	if life.Enrichment.WasteMS == 0 || run.Enrichment.WasteMS != life.Enrichment.WasteMS/8 {
		t.Errorf("waste_ms: got %v, want an eighth of %v", run.Enrichment.WasteMS, life.Enrichment.WasteMS)
	}
	times := 0
	for name, l := range life.Tools {
		r := run.Tools[name]
		if r.Cost.Latency != l.Cost.Latency/8 || r.Cost.Freshness != l.Cost.Freshness/8 || r.Cost.TypicalKB != l.Cost.TypicalKB {
			t.Errorf("%s: got %+v, want times an eighth of %+v", name, r.Cost, l.Cost)
		}
		if l.Cost.Latency > 0 && l.Cost.Freshness > 0 {
			times++
		}
		if diff := cmp.Diff(l.FollowUps, r.FollowUps); diff != "" || l.Class != r.Class {
			t.Errorf("%s (-life +run):\n%s", name, diff)
		}
	}
	if times == 0 || len(run.Tools) != len(life.Tools) {
		t.Errorf("got %d tools with times, %d tools of %d", times, len(run.Tools), len(life.Tools))
	}
}

// The arguments of follow-ups come from arguments and results. Their only constants are defaults
// of the tools.
func TestFollowUpsKnowTheToolsAlone(t *testing.T) {
	tools := map[string]map[string]struct{ Default any }{} // tool → its arguments
	for _, upstream := range []string{"tracker", "files"} {
		s, err := demo.NewUpstream(upstream, 1)
		if err != nil {
			t.Fatal(err)
		}
		for name, tool := range s.ListTools() {
			var schema struct {
				Properties map[string]struct{ Default any }
			}
			if err := json.Unmarshal(tool.Tool.RawInputSchema, &schema); err != nil {
				t.Fatal(err)
			}
			tools[upstream+"/"+name] = schema.Properties
		}
	}
	seen := 0
	for from, rule := range decode(t, demo.Config).Tools {
		upstream, _, _ := strings.Cut(from, "/")
		for _, f := range rule.FollowUps {
			seen++
			target, known := tools[upstream+"/"+f.Tool]
			if _, exact := tools[from]; !exact || !known {
				t.Errorf("%s → %s: unknown tools", from, f.Tool)
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(f.Args)) {
				property, ok := target[name]
				if !ok {
					t.Errorf("%s → %s: unknown argument %s", from, f.Tool, name)
					continue
				}
				text, _ := f.Args[name].(string)
				if !strings.HasPrefix(text, "$args.") && !strings.HasPrefix(text, "$result.") && f.Args[name] != property.Default {
					t.Errorf("%s → %s: %s = %v: want a binding, or the tool's default, %v", from, f.Tool, name, f.Args[name], property.Default)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("got no follow-ups")
	}
}

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

func TestTuned(t *testing.T) {
	const good = "# 12 calls\n[tools.\"hub/list\"]\nspeculate = false\ncost_model.typical_kb = 20 # median\nfollow_up = [{ tool = \"get\", probability = 0.5, args = { n = \"$result.n\" }, max = 2 }]\n"
	for name, test := range map[string]struct{ tuned, want string }{
		"none":          {"", ""},
		"what is tuned": {good, ""},
		"a class":       {"[tools.a]\nside_effect_class = \"read_only\"\n", `tuned.toml:2: tools.a.side_effect_class: unknown key`},
		"freshness":     {"[tools.a]\ncost_model.freshness_ttl_s = 60\n", `tuned.toml:2: tools.a.cost_model.freshness_ttl_s: unknown key`},
		"loosened":      {"[tools.a]\nspeculate = true\ncost_model.max_kb = 5\n", `tuned.toml:2: tools.a.speculate: want false`},
		"an upstream":   {"[upstreams.a]\ncommand = \"x\"\n", `tuned.toml:1: upstreams: unknown key`},
		"cut short":     {"[tools.a", `tuned.toml:1:`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.toml")
			write(t, path, "[enrichment]\nlearn = false\n")
			if test.tuned != "" {
				write(t, config.TunedPath(path), test.tuned)
			}
			c, err := config.Default().Load(path)
			if test.want != "" {
				broken, is := errors.AsType[*config.Error](err)
				if !is || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("got %v, want %s", err, test.want)
				}
				c := broken.Salvage(nil)
				if m := c.Models.Resolve(valuemodel.Upstream{Name: "u"}, "a", valuemodel.Hints{}); m.Sources["cost_model.max_kb"] == "tuned" {
					t.Error("the wrong layer applies")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if (len(c.Tuned) == 1) != (test.tuned != "") {
				t.Errorf("got %+v", c.Tuned)
			}
		})
	}
}

// TestTunedIsWatched checks that Watch reports a change, an error and the removal of tuned.toml.
func TestTunedIsWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	write(t, path, toml("info"))
	calls := watch(t, load(t, path))
	next := func() report {
		select {
		case got := <-calls:
			return got
		case <-time.After(20 * time.Second):
			t.Fatal("got nothing for 20 s")
			return report{}
		}
	}
	write(t, config.TunedPath(path)+".new", "[tools.a]\nspeculate = false\n")
	must(t, os.Rename(config.TunedPath(path)+".new", config.TunedPath(path)))
	if got := next(); got.level != "info" || got.tuned != 1 {
		t.Errorf("got %+v, want one tuned tool", got)
	}
	write(t, config.TunedPath(path)+".new", "[tools.a]\nspeculate = true\ncost_model.max_kb = 5\n")
	must(t, os.Rename(config.TunedPath(path)+".new", config.TunedPath(path)))
	if got := next(); got.err == nil {
		t.Errorf("got %+v, want an error", got)
	}
	must(t, os.Remove(config.TunedPath(path)))
	if got := next(); got.level != "info" || got.tuned != 0 {
		t.Errorf("got %+v, want no tuned tools", got)
	}
}

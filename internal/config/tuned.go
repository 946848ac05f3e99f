package config

import (
	"path/filepath"
	"reflect"
	"time"

	"mcpschedd/internal/valuemodel"
)

// tunedTool is a [tools.*] block of tuned.toml, a file that only mcpschedd tune writes. It has only
// the keys that can be measured. The operator alone sets the side effects of a call, the time for
// which its result may be reused, and the disclosure of its arguments.
type tunedTool struct {
	Name string `block:""` // "NAME/TOOL"

	Speculate *bool `toml:"speculate"` // false, or not set
	Cost      struct {
		TypicalKB float64       `toml:"typical_kb" min:"0"`
		MaxKB     float64       `toml:"max_kb" min:"0"`
		Latency   time.Duration `toml:"latency_ms_p50" unit:"1ms" min:"0"`
	} `toml:"cost_model"`
	FollowUps []valuemodel.FollowUp `toml:"follow_up"`
}

// TunedPath returns the path of the tuned.toml beside a configuration file, or "" if configuration
// is "", the built-in defaults.
func TunedPath(configuration string) string {
	if configuration == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(configuration), "tuned.toml")
}

// bindTuned binds the content of tuned.toml and adds its problems to those of the configuration.
func (f *findings) bindTuned(c *Config, data []byte) {
	own := &findings{file: TunedPath(c.Path)}
	var file struct {
		Tools []tunedTool `toml:"tools"`
	}
	tree, _ := own.decode(data)
	own.bindTable("", tree, reflect.ValueOf(&file).Elem())
	for _, t := range file.Tools {
		if t.Speculate != nil && *t.Speculate {
			own.problem(join("tools", t.Name, "speculate"), "want false: only the configuration can set true")
		}
		cost := valuemodel.Cost{TypicalKB: t.Cost.TypicalKB, MaxKB: t.Cost.MaxKB, Latency: t.Cost.Latency}
		layer := valuemodel.Layer{Speculate: t.Speculate, Cost: cost, FollowUps: t.FollowUps}
		c.Tuned = append(c.Tuned, valuemodel.Rule{Pattern: t.Name, Layer: layer, Source: "tuned", Tuned: true})
	}
	f.problems = append(f.problems, own.problems...)
	c.TunedPositions = own.pos
}

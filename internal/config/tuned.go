package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
)

// Tuned is one [tools.*] block of tuned.toml, which mcpschedd tune writes whole. It has
// only what may come of measuring: what a call may do, how long its answer may be
// kept and what it may be told stays the operator's to say.
type Tuned struct {
	Name string // "upstream/tool"
	Line int

	Speculate *bool      `toml:"speculate"` // false, or not set
	CostModel TunedCost  `toml:"cost_model"`
	FollowUp  []FollowUp `toml:"follow_up"`
}

// TunedCost is what calls have cost; 0 means not set.
type TunedCost struct {
	TypicalKB    float64 `toml:"typical_kb" min:"0"`     // KiB
	MaxKB        float64 `toml:"max_kb" min:"0"`         // KiB
	LatencyMSP50 float64 `toml:"latency_ms_p50" min:"0"` // ms
}

// TunedPath is the tuned.toml beside a configuration; "" for the built-in defaults.
func TunedPath(configuration string) string {
	if configuration == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(configuration), "tuned.toml")
}

// readTuned reads the tuned.toml beside a configuration; none is as good as an empty one.
func readTuned(configuration string) ([]byte, error) {
	data, err := read(TunedPath(configuration))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// tuned binds the content of tuned.toml. Its mistakes are told with those of the
// configuration.
func (f *findings) tuned(c *Config, data []byte) {
	if len(data) == 0 {
		return
	}
	own := &findings{file: TunedPath(c.Path)}
	tree, broken := own.decode(data)
	if broken != nil {
		f.problems = append(f.problems, *broken)
		return
	}
	var file struct {
		Tools []Tuned `toml:"tools"`
	}
	binder{own}.table("", tree, reflect.ValueOf(&file).Elem())
	for _, t := range file.Tools {
		if t.Speculate != nil && *t.Speculate {
			own.problem(join("tools", t.Name, "speculate"), "want false: only the configuration may say true")
		}
	}
	f.problems = append(f.problems, own.problems...)
	c.Tuned = file.Tools
}

// digest tells whether either file has changed.
func digest(configuration, tuned []byte) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(configuration), configuration, tuned))
}

package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
)

// Tuned is a [tools.*] block of tuned.toml, a file that only mcpschedd tune writes. It has only the
// keys that can be measured. The operator alone sets the side effects of a call, the time for which
// its result may be reused, and the disclosure of its arguments.
type Tuned struct {
	Name string // "upstream/tool"
	Line int

	Speculate *bool      `toml:"speculate"` // false, or not set
	CostModel TunedCost  `toml:"cost_model"`
	FollowUp  []FollowUp `toml:"follow_up"`
}

// TunedCost holds the measured part of a [CostModel]. 0 means not set.
type TunedCost struct {
	TypicalKB    float64 `toml:"typical_kb" min:"0"`     // KiB
	MaxKB        float64 `toml:"max_kb" min:"0"`         // KiB
	LatencyMSP50 float64 `toml:"latency_ms_p50" min:"0"` // ms
}

// TunedPath returns the path of the tuned.toml beside a configuration file, or "" if configuration
// is "", the built-in defaults.
func TunedPath(configuration string) string {
	if configuration == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(configuration), "tuned.toml")
}

// readTuned reads the tuned.toml beside a configuration file. A missing file counts as empty.
func readTuned(configuration string) ([]byte, error) {
	data, err := read(TunedPath(configuration))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// tuned binds the content of tuned.toml and adds its problems to those of the configuration.
func (f *findings) tuned(c *Config, data []byte) {
	if len(data) == 0 {
		return
	}
	own := &findings{file: TunedPath(c.Path)}
	tree, syntaxErr := own.decode(data)
	if syntaxErr != nil {
		f.problems = append(f.problems, *syntaxErr)
		return
	}
	var file struct {
		Tools []Tuned `toml:"tools"`
	}
	binder{own}.table("", tree, reflect.ValueOf(&file).Elem())
	for _, t := range file.Tools {
		if t.Speculate != nil && *t.Speculate {
			own.problem(join("tools", t.Name, "speculate"), "want false: only the configuration can set true")
		}
	}
	f.problems = append(f.problems, own.problems...)
	c.Tuned = file.Tools
}

// digest returns a hash of both files, to detect changes.
func digest(configuration, tuned []byte) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(configuration), configuration, tuned))
}

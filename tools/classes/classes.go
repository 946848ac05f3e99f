// Package classes reads what is known of the tools of recorded sessions, as a file of
// [tools.*] blocks says it to `mcpschedd replay --config`.
package classes

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

// upstream is the one upstream that has all recorded tools.
func upstream() valuemodel.Upstream {
	return valuemodel.Upstream{Name: "trace", Provider: "claude-code", Domain: "trace"}
}

// understood are the fields of a [tools.*] block that a file of classes may have.
// The program itself reads all of them; here anything else is an error rather than
// left out.
func understood() []string {
	return []string{"side_effect_class", "value_class", "speculate", "invalidates", "invalidates_only"}
}

// Read reads what a file says that the recorded tools do.
func Read(name string) (func(tool string) *valuemodel.Model, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(name, data)
	if err != nil {
		return nil, err
	}
	for _, t := range c.Tools {
		block := config.Key("tools", t.Pattern)
		for key, line := range c.Positions {
			field, of := strings.CutPrefix(key, block+".")
			field, _, _ = strings.Cut(field, "[")
			if of && !slices.Contains(understood(), field) {
				return nil, fmt.Errorf("%s:%d: %s: not understood here", name, line, key)
			}
		}
	}
	return func(tool string) *valuemodel.Model {
		return c.Models.Resolve(upstream(), tool, valuemodel.Hints{})
	}, nil
}

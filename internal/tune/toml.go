package tune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/valuemodel"
)

// head is the comment at the top of tuned.toml.
const head = `# Written by mcpschedd tune, which replaces the whole file. These measured and learned
# settings apply unless the configuration beside this file sets the same key. To keep a
# line, move it there; mcpschedd tune --undo reverts the last --write.
`

// TOML returns the content of tuned.toml, or nil if nothing is proposed.
func (p Proposal) TOML() []byte {
	if len(p.Blocks) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(head)
	for _, block := range p.Blocks {
		b.WriteString("\n[tools." + key(block.Tool) + "]\n")
		var follows []Line
		for _, l := range block.Lines {
			if l.Key == "follow_up" {
				follows = append(follows, l)
				continue
			}
			fmt.Fprintf(&b, "%s = %s # %s\n", l.Key, l.Value, l.Evidence)
		}
		if len(follows) > 0 {
			b.WriteString("follow_up = [\n")
			for _, l := range follows {
				fmt.Fprintf(&b, "  %s, # %s\n", l.Value, l.Evidence)
			}
			b.WriteString("]\n")
		}
	}
	return []byte(b.String())
}

// AdviceTOML returns the advice as commented-out settings.
func (p Proposal) AdviceTOML() string {
	var b strings.Builder
	for _, block := range p.Advice {
		fmt.Fprintf(&b, "# [tools.%s]\n", key(block.Tool))
		for _, l := range block.Lines {
			fmt.Fprintf(&b, "# %s = %s # %s\n", l.Key, l.Value, l.Evidence)
		}
	}
	return b.String()
}

// followUp formats a follow-up as an inline table.
func followUp(f *valuemodel.FollowUp) string {
	return encode(map[string]any{"tool": f.Tool, "probability": f.Probability, "args": f.Args, "max": f.Max})
}

// encode formats a value as TOML on one line. The array of arrays makes the encoder use the
// inline form. Numbers keep their JSON text.
func encode(v any) string {
	text, _ := json.Marshal(v) // cannot fail, as v was read from JSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	line, _ := toml.Marshal(map[string]any{"v": [][]any{{v}}}) // a configuration has only values that TOML can represent
	return strings.TrimSuffix(strings.TrimPrefix(string(line), "v = [["), "]]\n")
}

// key returns a name, quoted if necessary.
func key(name string) string { return toml.Key{name}.String() }

// number formats a number as TOML.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

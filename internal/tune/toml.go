package tune

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/valuemodel"
)

// head stands at the top of the file.
const head = `# Written whole by mcpschedd tune: what was measured and learned of the tools, a layer
# under the configuration beside it, which wins line by line. To keep a line, move it
# there; mcpschedd tune --undo takes back the last --write.
`

// TOML is the content of tuned.toml; nil if nothing is proposed.
func (p Proposal) TOML() []byte {
	if len(p.Blocks) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString(head)
	for _, one := range p.Blocks {
		b.WriteString("\n[tools." + key(one.Tool) + "]\n")
		var follows []Line
		for _, l := range one.Lines {
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

// Advised is the advice, as comments to take lines out of.
func (p Proposal) Advised() string {
	var b strings.Builder
	for _, one := range p.Advice {
		fmt.Fprintf(&b, "# [tools.%s]\n", key(one.Tool))
		for _, l := range one.Lines {
			fmt.Fprintf(&b, "# %s = %s # %s\n", l.Key, l.Value, l.Evidence)
		}
	}
	return b.String()
}

// followUp is a follow-up as an inline table.
func followUp(f *valuemodel.FollowUp) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{ tool = %s, probability = %s, args = {", encoded(f.Tool), number(f.Probability))
	for i, name := range slices.Sorted(maps.Keys(f.Args)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + key(name) + " = " + encoded(f.Args[name]))
	}
	fmt.Fprintf(&b, " }, max = %d }", f.Max)
	return b.String()
}

// encoded is a value as TOML has it, on one line, which the encoder writes only of what is in
// an array of arrays. Numbers stay as they are written in JSON.
func encoded(v any) string {
	text, _ := json.Marshal(v) // it was read from JSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	line, _ := toml.Marshal(map[string]any{"v": [][]any{{v}}}) // a configuration holds nothing else, and no null
	return strings.TrimSuffix(strings.TrimPrefix(string(line), "v = [["), "]]\n")
}

// key is a name, in quotes where it needs them.
func key(name string) string { return toml.Key{name}.String() }

// number is a number as TOML has it.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

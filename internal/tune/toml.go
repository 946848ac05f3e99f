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
	var text strings.Builder
	text.WriteString(head)
	for _, block := range p.Blocks {
		text.WriteString("\n" + block.toml())
	}
	return []byte(text.String())
}

// AdviceTOML returns the advice as commented-out settings.
func (p Proposal) AdviceTOML() (text string) {
	for _, block := range p.Advice {
		for line := range strings.Lines(block.toml()) {
			text += "# " + line
		}
	}
	return text
}

// toml formats a block, with the evidence as comments.
func (b *Block) toml() string {
	text, follows := "[tools."+toml.Key{b.Tool}.String()+"]\n", ""
	for _, l := range b.Lines {
		if l.Key == "follow_up" {
			follows += fmt.Sprintf("  %s, # %s\n", l.Value, l.Evidence)
		} else {
			text += fmt.Sprintf("%s = %s # %s\n", l.Key, l.Value, l.Evidence)
		}
	}
	if follows != "" {
		text += "follow_up = [\n" + follows + "]\n"
	}
	return text
}

// followUp formats a follow-up as an inline table.
func followUp(f *valuemodel.FollowUp) string {
	return encode(map[string]any{"tool": f.Tool, "probability": f.Probability, "args": f.Args, "max": f.Max})
}

// encode formats a value as TOML on one line. The array of arrays makes the encoder use the
// inline form. Numbers are decoded without loss, so that an integer stays one.
func encode(v any) string {
	text, _ := json.Marshal(v) // cannot fail, as v was read from JSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	line, _ := toml.Marshal(map[string]any{"v": [][]any{{v}}}) // a follow-up has no null, which TOML lacks
	return strings.TrimSuffix(strings.TrimPrefix(string(line), "v = [["), "]]\n")
}

// number formats a number as TOML.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

package tune

import (
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
	fmt.Fprintf(&b, "{ tool = %s, probability = %s, args = {", quoted(f.Tool), number(f.Probability))
	for i, name := range slices.Sorted(maps.Keys(f.Args)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" " + key(name) + " = " + bindingTOML(f.Args[name]))
	}
	fmt.Fprintf(&b, " }, max = %d }", f.Max)
	return b.String()
}

func bindingTOML(b valuemodel.Binding) string {
	raw, err := json.Marshal(b)
	if err != nil {
		return `""`
	}
	var v any
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return `""`
	}
	return value(v)
}

// value is a JSON value as TOML has it.
func value(v any) string {
	switch v := v.(type) {
	case string:
		return quoted(v)
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = value(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key(name)+" = "+value(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return `""`
}

// key is a name, in quotes where it needs them.
func key(name string) string { return toml.Key{name}.String() }

// quoted is a text in TOML's basic form, which is JSON's but for one control character.
func quoted(s string) string {
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	_ = out.Encode(s) // a text always can be
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007F`)
}

// number is a number as TOML has it.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

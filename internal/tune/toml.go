package tune

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/valuemodel"
)

// ordered are the blocks in the order of their headings.
func ordered(blocks map[string][]Line) []Block {
	var out []Block
	for _, tool := range slices.Sorted(maps.Keys(blocks)) {
		if len(blocks[tool]) > 0 {
			out = append(out, Block{tool, blocks[tool]})
		}
	}
	return out
}

// bare is the name that a tool has at its own upstream.
func bare(tool string) string {
	if _, name, split := strings.Cut(tool, "/"); split {
		return name
	}
	return tool
}

// followUpTOML is a follow-up as an inline table.
func followUpTOML(f *valuemodel.FollowUp) string {
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
func key(name string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if name != "" && strings.IndexFunc(name, func(c rune) bool { return !plain(c) }) < 0 {
		return name
	}
	return quoted(name)
}

// quoted is a text in TOML's basic form.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// number is a number as TOML has it.
func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

package tune

import (
	"maps"
	"strings"
)

// pathOf is where the settings of a tool stand, under its full name.
func pathOf(tool string) []string {
	if tool == "" {
		return []string{"enrichment"}
	}
	return []string{"tools", tool}
}

// lookUp is what a decoded file says of a key; nil: nothing.
func lookUp(tree map[string]any, path []string) any {
	var v any = tree
	for _, part := range path {
		table, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = table[part]
	}
	return v
}

// setTree sets a key in a decoded file.
func setTree(tree map[string]any, path []string, value any) {
	for _, part := range path[:len(path)-1] {
		next, ok := tree[part].(map[string]any)
		if !ok {
			next = make(map[string]any)
			tree[part] = next
		}
		tree = next
	}
	tree[path[len(path)-1]] = value
}

// identity tells two elements of a list apart that are not about the same: for a
// follow-up its tool and arguments, for an edge its tool and what must match. A bare
// name is of the same upstream.
func identity(tool string, element any) string {
	name, rest := element, any(nil)
	if t, ok := element.(map[string]any); ok {
		name = t["tool"]
		args, _ := t["args"].(map[string]any)
		if from, ok := t["projection"].(string); ok {
			to, _ := t["projection_arg"].(string)
			all := map[string]any{to: "$result.." + from}
			maps.Copy(all, args)
			args = all
		}
		rest = []any{args, t["match"]}
		if len(args) == 0 && t["match"] == nil {
			rest = nil
		}
	}
	s, _ := name.(string)
	if owner, _, ok := strings.Cut(tool, "/"); ok && !strings.Contains(s, "/") {
		s = owner + "/" + s
	}
	return canonical([]any{s, rest})
}

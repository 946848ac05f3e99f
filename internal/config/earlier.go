package config

import (
	"reflect"
	"strings"

	"mcpschedd/internal/paths"
)

// ignoredKeys returns the keys of the earlier format that have no effect. They configure how one
// result is encoded, which a proxy does not change.
func ignoredKeys() []string {
	return []string{
		"templates", "mckp", "profiles", "hints", "endpoint_overrides",
		"dedup.lru_size", "dedup.hint_verbosity", "dedup.near_ref_enabled", "dedup.min_body_chars", "dedup.enabled_per_endpoint",
		"telemetry.path", "telemetry.rotate_mib", "telemetry.sample_rate", "telemetry.flush_every_n",
		"enrichment.respect_rate_limits",
	}
}

// convertEarlier rewrites the keys of the earlier format (schema_version 2 to 4), in a file of any
// version, into current ones with warnings, and the earlier short form of a follow_up without, as that
// is no worse than the current one. It returns false for an unknown version; other messages about such a file would mislead.
func (f *findings) convertEarlier(tree map[string]any) bool {
	switch v, _ := tree["schema_version"].(int64); {
	case v > paths.MaxEarlierVersion:
		f.problem("schema_version", "version %d is newer than this program supports: want 1, or 2 to %d of the earlier format", v, paths.MaxEarlierVersion)
		return false
	case v > 1:
		f.warn("schema_version", "%d is the earlier format; read as 1", v)
		tree["schema_version"] = int64(1)
	}
	f.convertSwitch(tree, "enrichment", "enabled", "mode")
	f.convertSwitch(tree, "telemetry", "enabled", "events")
	for _, key := range ignoredKeys() {
		at, name := tree, key
		if section, below, nested := strings.Cut(key, "."); nested {
			at, _ = tree[section].(map[string]any)
			name = below
		}
		if _, stated := at[name]; stated {
			delete(at, name)
			f.warn(key, "a key of the earlier format; it has no effect")
		}
	}
	tools, _ := tree["tools"].(map[string]any)
	for name, tool := range tools {
		block, _ := tool.(map[string]any)
		all := reflect.ValueOf(block["follow_up"]) // []any, or []map[string]any of [[x]] blocks
		for i := 0; all.Kind() == reflect.Slice && i < all.Len(); i++ {
			f.convertProjection(element(join("tools", name, "follow_up"), i), all.Index(i).Interface())
		}
	}
	return true
}

// convertProjection converts projection = "FIELD", projection_arg = "ARGUMENT" of a follow-up to
// args = { ARGUMENT = "$result..FIELD" }.
func (f *findings) convertProjection(key string, followUp any) {
	table, _ := followUp.(map[string]any)
	from, projects := table["projection"]
	argument, fills := table["projection_arg"]
	if !projects && !fills {
		return
	}
	delete(table, "projection")
	delete(table, "projection_arg")
	field, ok := from.(string)
	name, ok2 := argument.(string)
	if !ok || !ok2 || table["args"] != nil {
		f.warn(key, `projection has no effect: want projection = "FIELD" and projection_arg = "ARGUMENT", without args`)
		return
	}
	table["args"] = map[string]any{name: "$result.." + field}
	f.pos[join(key, "args", name)] = f.pos.line(join(key, "projection_arg"))
}

// convertSwitch converts a boolean of the earlier format to "on" or "off" of the key that replaced
// it.
func (f *findings) convertSwitch(tree map[string]any, section, old, now string) {
	table, _ := tree[section].(map[string]any)
	on, ok := table[old].(bool)
	if !ok {
		return
	}
	delete(table, old)
	if _, both := table[now]; both {
		f.problem(join(section, old), "replaced by %s, which is set too; keep one", now)
		return
	}
	table[now] = map[bool]string{true: "on", false: "off"}[on]
	f.pos[join(section, now)] = f.pos.line(join(section, old))
	f.warn(join(section, old), "a key of the earlier format; read as %s = %q", now, table[now])
}

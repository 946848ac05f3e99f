package config

import "strings"

// newestEarlier is the last schema_version of the earlier format: that of the tool whose
// annotations this proxy took over.
const newestEarlier = 4

// earlierOnly are keys of the earlier format that have nothing to act on here:
// they concern how one answer is encoded, which a proxy leaves alone.
func earlierOnly() []string {
	return []string{
		"templates", "mckp", "profiles", "hints", "endpoint_overrides",
		"dedup.lru_size", "dedup.hint_verbosity", "dedup.near_ref_enabled", "dedup.min_body_chars", "dedup.enabled_per_endpoint",
		"telemetry.path", "telemetry.rotate_mib", "telemetry.sample_rate", "telemetry.flush_every_n",
		"enrichment.respect_rate_limits",
	}
}

// aliases rewrites the keys of the earlier format (schema_version 2 to 4) into ours, and
// says so. The short form of a follow_up is part of [FollowUp]. It says false of a file of a
// version that this program cannot know: whatever else it would find to say of it would mislead.
func (f *findings) aliases(tree map[string]any) bool {
	switch v, _ := tree["schema_version"].(int64); {
	case v > newestEarlier:
		f.problem("schema_version", "the file is of version %d, newer than the newest this program knows, 1 (and 2 to %d of the earlier format)", v, newestEarlier)
		return false
	case v > 1:
		f.warn("schema_version", "%d is the earlier format; read as 1", v)
		tree["schema_version"] = int64(1)
	}
	f.switchAlias(tree, "enrichment", "enabled", "mode")
	f.switchAlias(tree, "telemetry", "enabled", "events")
	for _, key := range earlierOnly() {
		at, name := tree, key
		if section, below, nested := strings.Cut(key, "."); nested {
			at, _ = tree[section].(map[string]any)
			name = below
		}
		if _, stated := at[name]; stated {
			delete(at, name)
			f.warn(key, "a key of the earlier format, without effect here")
		}
	}
	return true
}

// switchAlias turns a true or false of the earlier format into the "on" or
// "off" of the key that took its place.
func (f *findings) switchAlias(tree map[string]any, section, old, now string) {
	table, _ := tree[section].(map[string]any)
	on, ok := table[old].(bool)
	if !ok {
		return
	}
	delete(table, old)
	if _, both := table[now]; both {
		f.problem(join(section, old), "stands beside %s, which took its place; keep one", now)
		return
	}
	table[now] = map[bool]string{true: "on", false: "off"}[on]
	f.pos[join(section, now)] = f.pos.line(join(section, old))
	f.warn(join(section, old), "a key of the earlier format; read as %s = %q", now, table[now])
}

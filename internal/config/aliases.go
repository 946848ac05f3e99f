package config

import "strings"

// newestEarlier is the last schema_version of the earlier format.
const newestEarlier = 4

// earlierOnly are keys of the earlier format that have nothing to act on here:
// they concern how one answer is encoded, which a proxy leaves alone.
func earlierOnly() []string {
	return []string{
		"templates", "mckp", "profiles", "hints", "endpoint_overrides",
		"dedup.lru_size", "dedup.hint_verbosity", "dedup.near_ref_enabled", "dedup.min_body_chars", "dedup.enabled_per_endpoint",
		"telemetry.path", "telemetry.rotate_mib", "telemetry.sample_rate", "telemetry.flush_every_n",
	}
}

// aliases rewrites the keys of the earlier format (schema_version 2 to 4, of
// the tool whose annotations this proxy took over) into ours, and says so. The
// short form of a follow_up is part of [FollowUp].
func (b *binder) aliases(tree map[string]any) {
	if v, ok := tree["schema_version"].(int64); ok && v > 1 && v <= newestEarlier {
		b.warn("schema_version", "%d is the earlier format; read as 1", v)
		tree["schema_version"] = int64(1)
	}
	b.switchAlias(tree, "enrichment", "enabled", "mode")
	b.switchAlias(tree, "telemetry", "enabled", "events")
	if section, ok := tree["enrichment"].(map[string]any); ok {
		if respect, ok := section["respect_rate_limits"].(bool); ok {
			delete(section, "respect_rate_limits")
			if !respect {
				b.warn("enrichment.respect_rate_limits", "has no effect: rate limits are always respected")
			}
		}
	}
	for _, key := range earlierOnly() {
		section, name, nested := strings.Cut(key, ".")
		at := tree
		if nested {
			at, _ = tree[section].(map[string]any)
		} else {
			name = section
		}
		if _, stated := at[name]; stated {
			delete(at, name)
			b.warn(key, "a key of the earlier format, without effect here")
		}
	}
}

// switchAlias turns a true or false of the earlier format into the "on" or
// "off" of the key that took its place.
func (b *binder) switchAlias(tree map[string]any, section, old, now string) {
	table, _ := tree[section].(map[string]any)
	on, ok := table[old].(bool)
	if !ok {
		return
	}
	delete(table, old)
	if _, both := table[now]; both {
		b.problem(join(section, old), "stands beside %s, which took its place; keep one", now)
		return
	}
	table[now] = "off"
	if on {
		table[now] = "on"
	}
	b.pos.alias(join(section, now), join(section, old))
	b.warn(join(section, old), "a key of the earlier format; read as %s = %q", now, table[now])
}

// newer says whether the file is of a version that this program cannot know.
// Whatever else it would find to say about such a file would mislead.
func (b *binder) newer(tree map[string]any) bool {
	v, ok := tree["schema_version"].(int64)
	if ok && v > newestEarlier {
		b.problem("schema_version", "the file is of version %d, newer than the newest this program knows, 1 (and 2 to %d of the earlier format)", v, newestEarlier)
		return true
	}
	return false
}

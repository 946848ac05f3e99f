package config

import (
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"mcpschedd/internal/nearest"
)

// maxPrefetchWaitMS bounds how long an answer may be held back for its
// prefetches: beyond it waiting costs more than it hides.
const maxPrefetchWaitMS = 150

// check finds what no single key can be wrong about by itself.
func (b *binder) check(c *Config) {
	if c.Server.Tools == "search" {
		b.problem("server.tools", `"search" is not in this version; use "all"`)
	}
	b.fixedPath("server.state_dir", c.Server.StateDir)
	b.fixedPath("log.file", c.Log.File)
	for i, origin := range c.HTTP.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			b.problem(element("http.allowed_origins", i), "want an origin such as \"https://app.example\", have %q", origin)
		}
	}
	for i, host := range c.HTTP.AllowedHosts {
		if !bareHost(host) {
			b.problem(element("http.allowed_hosts", i), "want a host without scheme and port, such as \"box.example\", have %q", host)
		}
	}
	b.checkEnrichment(&c.Enrichment)
	for _, u := range c.Upstreams {
		b.checkUpstream(u, c.Plan.Enabled || len(c.Plans) > 0)
	}
	for _, l := range c.Limits {
		b.checkLimit(l)
	}
	for _, p := range c.Plans {
		if !c.Plan.Enabled && !b.failed("plan.enabled") {
			b.warn(join("plans", p.Name), "is not listed: it takes enabled = true in [plan]")
		}
		b.checkPlan(p)
	}
	var upstreams []string
	for _, u := range c.Upstreams {
		upstreams = append(upstreams, u.Name)
	}
	for _, t := range c.Tools {
		b.checkTool(t, upstreams)
	}
}

// fixedPath refuses what looks as if it were expanded in a place where only the
// upstreams' strings are.
func (b *binder) fixedPath(key, path string) {
	if strings.Contains(path, "${") || strings.HasPrefix(path, "~") {
		b.problem(key, "want a path as it is; variables and ~ are not expanded here")
	}
}

func (b *binder) checkEnrichment(e *Enrichment) {
	const key = "enrichment.prefetch_timeout_ms"
	switch {
	case e.PrefetchTimeoutMS > 0 && e.Delivery != "inline":
		b.warn(key, `has no effect unless delivery = "inline"`)
	case e.PrefetchTimeoutMS > maxPrefetchWaitMS:
		b.warn(key, "%d is taken as %d", e.PrefetchTimeoutMS, maxPrefetchWaitMS)
	}
	e.PrefetchTimeoutMS = min(e.PrefetchTimeoutMS, maxPrefetchWaitMS)
}

// validHost takes host names and addresses, with or without a port.
func validHost(host string) bool {
	u, err := url.Parse("//" + host)
	return err == nil && u.Host == host && host != "" && !strings.ContainsAny(host, " \t")
}

// bareHost takes a name or an address by which a client can reach a listener.
func bareHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsUnspecified()
	}
	return validHost(host) && !strings.ContainsAny(host, ":*[]")
}

func (b *binder) checkLimit(l Limit) {
	key := join("limits", l.Name)
	if l.Name != "*" {
		b.checkHost(key, l.Name, `, or "*" for every other`)
	}
	if l.Burst > 0 && l.Rate == 0 && !b.failed(join(key, "rate")) {
		b.problem(join(key, "burst"), "has no meaning without rate")
	}
}

// checkHost wants a host, or what else may stand there.
func (b *binder) checkHost(key, host, or string) {
	if validHost(host) {
		return
	}
	if u, err := url.Parse(host); err == nil && u.Scheme != "" && validHost(u.Host) {
		b.problem(key, "want a host, not a url; did you mean %q?", u.Host)
		return
	}
	b.problem(key, "want a host such as \"api.github.com\"%s, have %q", or, host)
}

// failed says whether the key already has a problem, so that it gives no second.
func (b *binder) failed(key string) bool {
	return slices.ContainsFunc(b.problems, func(p Problem) bool { return p.Key == key })
}

func (b *binder) checkPlan(p NamedPlan) {
	key := join("plans", p.Name)
	if p.Name == "" || strings.Trim(p.Name, nameLetters+"_") != "" {
		b.problem(key, "want a name of letters, digits, - and _, have %q", p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		b.checkSchema(join(key, "parameters", name), p.Parameters[name])
	}
	if len(p.Steps) == 0 && !b.failed(join(key, "steps")) {
		b.problem(join(key, "steps"), "want at least one step")
	}
	for i, step := range p.Steps {
		if _, ok := step.(map[string]any); !ok && step != nil { // nil: already has a problem
			b.problem(element(join(key, "steps"), i), "want a table with id, tool and arguments, have %s", show(step))
		}
	}
}

// checkSchema looks at the one keyword that everybody writes, by hand and wrong.
func (b *binder) checkSchema(key string, schema any) {
	table, ok := schema.(map[string]any)
	if !ok {
		if _, always := schema.(bool); !always {
			b.problem(key, "want a JSON Schema such as { type = \"string\" }, have %s", show(schema))
		}
		return
	}
	types, several := table["type"].([]any)
	if !several {
		if table["type"] == nil {
			return
		}
		types = []any{table["type"]}
	}
	known := []any{"string", "number", "integer", "boolean", "array", "object", "null"}
	for _, t := range types {
		if s, ok := t.(string); !ok || !slices.Contains(known, any(s)) {
			b.problem(join(key, "type"), "want string, number, integer, boolean, array, object or null, have %s", show(t))
		}
	}
}

func (b *binder) checkTool(t Tool, upstreams []string) {
	key := join("tools", t.Name)
	b.pattern(key, t.Name)
	b.checkOwner(key, t.Name, upstreams)
	if t.RateLimitHost != "" {
		b.checkHost(join(key, "rate_limit_host"), t.RateLimitHost, "")
	}
	if m := t.CostModel; m.MaxKB > 0 && m.MaxKB < m.TypicalKB {
		b.problem(join(key, "cost_model", "max_kb"), "want at least typical_kb, %v, have %v", m.TypicalKB, m.MaxKB)
	}
	for i, inv := range t.Invalidates {
		at := element(join(key, "invalidates"), i)
		b.pattern(at, inv.Tool)
		b.checkOwner(at, inv.Tool, upstreams)
		for j, arg := range inv.Match {
			if arg == "" {
				b.problem(element(join(at, "match"), j), "want the name of an argument")
			}
		}
	}
	for name, group := range t.FieldGroups {
		for i, field := range group.Fields {
			if _, err := path.Match(field, ""); err != nil || field == "" {
				b.problem(element(join(key, "field_groups", name, "fields"), i), "want a field or a glob, have %q", field)
			}
		}
	}
	for i, f := range t.FollowUp {
		at := element(join(key, "follow_up"), i)
		b.checkFollowUp(at, f)
		b.checkOwner(join(at, "tool"), f.Tool, upstreams)
	}
}

// checkOwner warns of a tool whose upstream is not in the file.
func (b *binder) checkOwner(key, tool string, upstreams []string) {
	owner, _, ok := strings.Cut(tool, "/")
	if !ok || len(upstreams) == 0 || strings.ContainsAny(owner, `*?[\`) || slices.Contains(upstreams, owner) {
		return
	}
	if like := nearest.New(upstreams).To(owner); like != "" {
		b.warn(key, "no upstream is named %q here; did you mean %q?", owner, like)
		return
	}
	b.warn(key, "no upstream is named %q here", owner)
}

// pattern checks "tool", "upstream/tool" and globs of both. A tool's own name
// may hold slashes, so only the first one counts.
func (b *binder) pattern(key, name string) {
	owner, tool, split := strings.Cut(name, "/")
	_, err := path.Match(name, "")
	if owner == "" || split && tool == "" || err != nil {
		if !b.failed(key) {
			b.problem(key, "want \"tool\", \"upstream/tool\" or a glob such as \"github/get_*\", have %q", name)
		}
	}
}

func (b *binder) checkFollowUp(key string, f FollowUp) {
	owner, tool, split := strings.Cut(f.Tool, "/")
	if (owner == "" || split && tool == "") && !b.failed(join(key, "tool")) && !b.failed(key) {
		b.problem(join(key, "tool"), "want \"tool\" or \"upstream/tool\", have %q", f.Tool)
	}
	switch {
	case f.Projection != "" && len(f.Args) > 0:
		b.problem(join(key, "projection"), "is the short form of args; keep one")
	case f.ProjectionArg != "" && f.Projection == "":
		b.problem(join(key, "projection_arg"), "has no meaning without projection")
	case f.Projection != "" && f.ProjectionArg == "":
		b.warn(join(key, "projection"), "has no effect without projection_arg")
	}
}

package config

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"mcpschedd/internal/nearest"
)

// maxPrefetchWaitMS is the longest time that a result may wait for its prefetches. A longer wait
// costs more time than the prefetches save.
const maxPrefetchWaitMS = 150

// checker finds the problems that the tags of the schema cannot express.
type checker struct {
	*findings
	upstreams []string // names of the upstreams
}

func (f checker) check(c *Config) {
	f.checkServer(c)
	f.checkPrefetchTimeout(&c.Enrichment)
	f.checkBudgets(&c.Budgets)
	for _, u := range c.Upstreams {
		f.upstreams = append(f.upstreams, u.Name)
		if u.Name == "plan" && (c.Plan.Enabled || len(c.Plans) > 0) {
			f.problem("upstreams.plan", `"plan" is reserved: named plans are listed as plan__NAME`)
		}
		f.checkUpstream(join("upstreams", u.Name), u)
	}
	for _, l := range c.Limits {
		f.checkLimit(join("limits", l.Name), l)
	}
	for _, p := range c.Plans {
		if !c.Plan.Enabled && !f.failed("plan.enabled") {
			f.warn(join("plans", p.Name), "is not listed: set enabled = true in [plan]")
		}
		f.checkPlan(join("plans", p.Name), p)
	}
	for _, t := range c.Tools {
		f.checkTool(join("tools", t.Name), t)
	}
}

func (f checker) checkServer(c *Config) {
	for key, path := range map[string]string{"server.state_dir": c.Server.StateDir, "log.file": c.Log.File} {
		if strings.Contains(path, "${") || strings.HasPrefix(path, "~") {
			f.problem(key, "want a literal path; variables and ~ are not expanded here")
		}
	}
	for i, pattern := range c.Server.Pinned {
		if !strings.Contains(pattern, "/") || !validGlob(pattern) {
			f.problem(element("server.pinned", i), "want upstream/tool or a glob such as \"github/get_*\", have %q", pattern)
		}
	}
	for i, origin := range c.HTTP.AllowedOrigins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin {
			f.problem(element("http.allowed_origins", i), "want an origin such as \"https://app.example\", have %q", origin)
		}
	}
	for i, host := range c.HTTP.AllowedHosts {
		if !bareHost(host) {
			f.problem(element("http.allowed_hosts", i), "want a host without scheme and port, such as \"box.example\", have %q", host)
		}
	}
}

func (f checker) checkPrefetchTimeout(e *Enrichment) {
	const key = "enrichment.prefetch_timeout_ms"
	switch {
	case e.PrefetchTimeoutMS > 0 && e.Delivery != "inline":
		f.warn(key, `has no effect unless delivery = "inline"`)
	case e.PrefetchTimeoutMS > maxPrefetchWaitMS:
		f.warn(key, "%d exceeds the maximum; %d is used", e.PrefetchTimeoutMS, maxPrefetchWaitMS)
	}
	e.PrefetchTimeoutMS = min(e.PrefetchTimeoutMS, maxPrefetchWaitMS)
}

// maxWeight bounds the weight of a client, which is relative to 1 for other clients.
const maxWeight = 1000

func (f checker) checkBudgets(b *Budgets) {
	for name, weight := range b.Weights {
		if weight <= 0 || weight > maxWeight {
			f.problem(join("budgets", "weights", name), "want a number above 0, up to %d, have %v", maxWeight, weight)
		}
	}
	switch {
	case b.PoolTokens == 0 && len(b.Weights) > 0:
		f.warn("budgets.weights", "has no effect without pool_tokens")
	case b.PoolTokens > 0 && b.Window == 0 && !f.failed("budgets.window"):
		f.problem("budgets.window", `want a time span above 0, such as "5h", with pool_tokens`)
	}
}

// validHost reports whether host is a host name or an address, with or without a port.
func validHost(host string) bool {
	u, err := url.Parse("//" + host)
	return err == nil && u.Host == host && host != "" && !strings.ContainsAny(host, " \t")
}

// bareHost reports whether host is a name or an address, without a port, by which a client can
// reach a listener.
func bareHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return !ip.IsUnspecified()
	}
	return validHost(host) && !strings.ContainsAny(host, ":*[]")
}

// checkHost reports a problem if host is not a valid host. alternative, if not "", tells the user
// which other value is allowed.
func (f checker) checkHost(key, host, alternative string) {
	if validHost(host) {
		return
	}
	if u, err := url.Parse(host); err == nil && u.Scheme != "" && validHost(u.Host) {
		f.problem(key, "want a host, not a url; did you mean %q?", u.Host)
		return
	}
	f.problem(key, "want a host such as \"api.github.com\"%s, have %q", alternative, host)
}

func (f checker) checkLimit(key string, l Limit) {
	if l.Name != "*" {
		f.checkHost(key, l.Name, `, or "*" for every other host`)
	}
	if l.Burst > 0 && l.Rate == 0 && !f.failed(join(key, "rate")) {
		f.problem(join(key, "burst"), "has no meaning without rate")
	}
}

// checkPlan checks the name and the parameters. Package plan checks the steps.
func (f checker) checkPlan(key string, p NamedPlan) {
	if p.Name == "" || strings.Trim(p.Name, nameLetters+"_") != "" {
		f.problem(key, "want a name of letters, digits, - and _, have %q", p.Name)
	}
	for name, schema := range p.Parameters {
		f.checkSchema(join(key, "parameters", name), schema)
	}
}

// checkSchema checks the type of a JSON Schema, the keyword most often wrong.
func (f checker) checkSchema(key string, schema any) {
	table, ok := schema.(map[string]any)
	if !ok {
		if _, always := schema.(bool); !always {
			f.problem(key, "want a JSON Schema such as { type = \"string\" }, have %s", show(schema))
		}
		return
	}
	types, several := table["type"].([]any)
	if !several && table["type"] != nil {
		types = []any{table["type"]}
	}
	known := []any{"string", "number", "integer", "boolean", "array", "object", "null"}
	for _, t := range types {
		if s, ok := t.(string); !ok || !slices.Contains(known, any(s)) {
			f.problem(join(key, "type"), "want string, number, integer, boolean, array, object or null, have %s", show(t))
		}
	}
}

// checkTool checks a layer of a tool's model. Package valuemodel checks the forms of tool names
// when it compiles the layers.
func (f checker) checkTool(key string, t Tool) {
	f.checkToolUpstream(key, t.Name)
	if t.RateLimitHost != "" {
		f.checkHost(join(key, "rate_limit_host"), t.RateLimitHost, "")
	}
	if m := t.CostModel; m.MaxKB > 0 && m.MaxKB < m.TypicalKB {
		f.problem(join(key, "cost_model", "max_kb"), "want at least typical_kb, %v, have %v", m.TypicalKB, m.MaxKB)
	}
	for i, inv := range t.Invalidates {
		at := element(join(key, "invalidates"), i)
		f.checkToolUpstream(at, inv.Tool)
		for j, arg := range inv.Match {
			if arg == "" {
				f.problem(element(join(at, "match"), j), "want the name of an argument")
			}
		}
	}
	for name, group := range t.FieldGroups {
		for i, field := range group.Fields {
			if !validGlob(field) {
				f.problem(element(join(key, "field_groups", name, "fields"), i), "want a field or a glob, have %q", field)
			}
		}
	}
	for i, next := range t.FollowUp {
		at := element(join(key, "follow_up"), i)
		f.checkToolUpstream(join(at, "tool"), next.Tool)
		switch {
		case next.Projection != "" && len(next.Args) > 0:
			f.problem(join(at, "projection"), "is the short form of args; keep one")
		case next.ProjectionArg != "" && next.Projection == "":
			f.problem(join(at, "projection_arg"), "has no meaning without projection")
		case next.Projection != "" && next.ProjectionArg == "":
			f.warn(join(at, "projection"), "has no effect without projection_arg")
		}
	}
}

// checkToolUpstream warns of a tool whose upstream is not in the file.
func (f checker) checkToolUpstream(key, tool string) {
	upstream, _, ok := strings.Cut(tool, "/")
	if !ok || upstream == "" || len(f.upstreams) == 0 || strings.ContainsAny(upstream, `*?[\`) || slices.Contains(f.upstreams, upstream) {
		return
	}
	if like := nearest.New(f.upstreams).To(upstream); like != "" {
		f.warn(key, "no upstream is named %q here; did you mean %q?", upstream, like)
		return
	}
	f.warn(key, "no upstream is named %q here", upstream)
}

func validGlob(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err == nil && pattern != ""
}

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"

// validName reports whether name consists of letters, digits and -, with single _ between them.
// The first __ of upstream__tool then always ends the upstream's name.
func validName(name string) bool {
	for part := range strings.SplitSeq(name, "_") {
		if part == "" || strings.Trim(part, nameLetters) != "" {
			return false
		}
	}
	return true
}

func (f checker) checkUpstream(key string, u Upstream) {
	if !validName(u.Name) {
		f.problem(key, "want a name of letters, digits and -, with single _ between them, so that upstream__tool is unambiguous, have %q", u.Name)
	}
	f.checkTransport(key, u)
	if u.SharedIdentity && u.Instances != "shared" && !(u.Instances == "" && u.URL != "") {
		f.problem(join(key, "shared_identity"), `has no meaning without instances = "shared"`)
	}
	for i, folder := range u.Folders {
		if folder == "" || strings.HasPrefix(folder, "~") {
			f.problem(element(join(key, "folders"), i), `want the path of a directory; "~" is not expanded, have %q`, folder)
		}
	}
	for name, patterns := range map[string][]string{"allow": u.Tools.Allow, "deny": u.Tools.Deny} {
		for i, p := range patterns {
			if !validGlob(p) {
				f.problem(element(join(key, "tools", name), i), "want the name of a tool or a glob such as \"delete_*\", have %q", p)
			}
		}
	}
	f.checkVariables(key, u)
}

// checkTransport checks that the upstream has either command or url, with only the keys that
// belong to it.
func (f checker) checkTransport(key string, u Upstream) {
	switch {
	case u.Command != "" && u.URL != "":
		f.problem(join(key, "url"), "want either command or url, have both")
		return
	case u.Command == "" && u.URL == "":
		if !f.failed(join(key, "command")) && !f.failed(join(key, "url")) && !f.failed(key) {
			f.problem(key, "want command or url")
		}
		return
	}
	if program, rest, several := strings.Cut(u.Command, " "); several && !strings.ContainsAny(program, `/\$`) {
		quoted, _ := json.Marshal(strings.Fields(rest)) // strings always marshal
		f.problem(join(key, "command"), "want one program without its arguments: split it into command = %q and args = %s", program, quoted)
	}
	stray, other := map[string]bool{"transport": u.Transport != "", "headers": len(u.Headers) > 0}, "url"
	if u.URL != "" {
		stray, other = map[string]bool{"args": len(u.Args) > 0, "cwd": u.Cwd != "", "env": len(u.Env) > 0}, "command"
		// A variable may hold any part of the URL. The placeholder is valid as a host, a port and
		// a path; if a variable holds the scheme, only Resolve can check the URL.
		expanded, err := expand(u.URL, placeholder)
		if message := urlProblem(expanded); err == nil && message != "" && !strings.HasPrefix(u.URL, "${") {
			f.problem(join(key, "url"), "%s", message)
		}
	}
	for name, isSet := range stray {
		if isSet {
			f.problem(join(key, name), "has no meaning without %s", other)
		}
	}
}

// checkVariables checks the syntax of every ${NAME} of an upstream, and the names of its
// environment variables and headers.
func (f checker) checkVariables(key string, u Upstream) {
	for name := range u.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			f.problem(join(key, "env", name), "want the name of an environment variable, have %q", name)
		}
	}
	for name, v := range u.Headers {
		if name == "" || strings.Trim(name, nameLetters+"!#$%&'*+.^_`|~") != "" {
			f.problem(join(key, "headers", name), "want the name of an HTTP header, have %q", name)
		}
		if strings.ContainsFunc(v, isControl) {
			f.problem(join(key, "headers", name), "want no control characters")
		}
	}
	checkSyntax := func(name, s string) string {
		if _, err := expand(s, placeholder); err != nil {
			f.problem(key+"."+name, "%v", err)
		}
		return s
	}
	checkSyntax("env_file", u.EnvFile)
	u.mapStrings(checkSyntax)
	for name, path := range map[string]string{"command": u.Command, "cwd": u.Cwd, "env_file": u.EnvFile} {
		if strings.HasPrefix(path, "~") {
			f.problem(join(key, name), `"~" is not expanded; write ${HOME}`)
		}
	}
}

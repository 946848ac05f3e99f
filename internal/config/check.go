package config

import (
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// maxPrefetchWait is the longest time that a result may wait for its prefetches. A longer wait
// costs more time than the prefetches save.
const maxPrefetchWait = 150 * time.Millisecond

// check finds the problems between several keys, which the tags of the schema cannot express.
func (f *findings) check(c *Config) {
	f.checkPrefetchTimeout(&c.Enrichment)
	switch b := &c.Budgets; {
	case b.Pool == 0 && len(b.Weights) > 0:
		f.warn("budgets.weights", "has no effect without pool_tokens")
	case b.Pool > 0 && b.Window == 0 && !f.failed("budgets.window"):
		f.problem("budgets.window", `want a time span above 0, such as "5h", with pool_tokens`)
	}
	var upstreams []string // their names
	for _, u := range c.Upstreams {
		upstreams = append(upstreams, u.Name)
		if u.Name == "plan" && (c.Plan.Enabled || len(c.Plans) > 0) {
			f.problem("upstreams.plan", `"plan" is reserved: named plans are listed as plan__NAME`)
		}
		f.checkUpstream(join("upstreams", u.Name), u)
	}
	for host, l := range c.Limits {
		key := join("limits", host)
		if l.Burst > 0 && l.Rate == 0 && !f.failed(join(key, "rate")) {
			f.problem(join(key, "burst"), "has no meaning without rate")
		}
		if name, local := strings.CutPrefix(host, limit.LocalPrefix); local {
			f.checkNamesUpstream(key, name, upstreams)
		}
	}
	for _, p := range c.Plans {
		if !c.Plan.Enabled && !f.failed("plan.enabled") {
			f.warn(join("plans", p.Name), "is not listed: set enabled = true in [plan]")
		} else if p.Description == "" {
			f.warn(join("plans", p.Name), "has no description: write for which task a model is to use it")
		}
	}
	for _, t := range c.Tools {
		f.checkTool(join("tools", t.Pattern), t, upstreams)
	}
}

func (f *findings) checkPrefetchTimeout(e *speculate.Rules) {
	const key = "enrichment.prefetch_timeout_ms"
	switch {
	case e.Wait > 0 && e.Delivery != "inline":
		f.warn(key, `has no effect unless delivery = "inline"`)
	case e.Wait > maxPrefetchWait:
		f.warn(key, "%d exceeds the maximum; %d is used", e.Wait.Milliseconds(), maxPrefetchWait.Milliseconds())
	}
	e.Wait = min(e.Wait, maxPrefetchWait)
}

// checkTool checks a layer of a tool's model. Package valuemodel checks the forms of tool names
// when it compiles the layers.
func (f *findings) checkTool(key string, t valuemodel.Rule, upstreams []string) {
	f.checkToolUpstream(key, t.Pattern, upstreams)
	if m := t.Cost; m.MaxKB > 0 && m.MaxKB < m.TypicalKB {
		f.problem(join(key, "cost_model", "max_kb"), "want at least typical_kb, %v, have %v", m.TypicalKB, m.MaxKB)
	}
	for i, inv := range t.Invalidates {
		f.checkToolUpstream(element(join(key, "invalidates"), i), inv.Tool, upstreams)
	}
	own, _, ofOne := strings.Cut(t.Pattern, "/")
	for i, next := range t.FollowUps {
		key := join(element(join(key, "follow_up"), i), "tool")
		f.checkToolUpstream(key, next.Tool, upstreams)
		if of, _, ok := strings.Cut(next.Tool, "/"); ok && ofOne && of != own && !valuemodel.IsGlob(own) {
			f.warn(key, "is never prefetched: want a tool of %q, as one server's data is not sent to another", own)
		}
	}
}

// checkToolUpstream warns of a tool of an upstream that is not one of upstreams, those of the file.
func (f *findings) checkToolUpstream(key, tool string, upstreams []string) {
	if upstream, _, ok := strings.Cut(tool, "/"); ok && upstream != "" && !valuemodel.IsGlob(upstream) {
		f.checkNamesUpstream(key, upstream, upstreams)
	}
}

// checkNamesUpstream warns if no upstream has the name. A file without upstreams may have limits and
// tools for those of another.
func (f *findings) checkNamesUpstream(key, name string, upstreams []string) {
	if len(upstreams) > 0 && !slices.Contains(upstreams, name) {
		f.warn(key, "no server is named %q here%s", name, nearest.Question(name, upstreams))
	}
}

// checkHosts warns of limits of upstream:NAME that no call counts against, as the upstream has a host. It
// needs the compiled models.
func (f *findings) checkHosts(c *Config) {
	for limited := range c.Limits {
		i := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return limited == limit.LocalPrefix+u.Name })
		if i < 0 {
			continue
		}
		u := c.Upstreams[i]
		host := c.Models.Resolve(valuemodel.Upstream{
			Name: u.Name, URL: u.URL, Provider: u.Provider, Trust: u.Trust,
			Recognised: valuemodel.Recognise(valuemodel.Settings{Command: u.Command, Args: u.Args, Env: u.Env, URL: u.URL}),
		}, "", valuemodel.Hints{}).Host
		switch key := join("limits", limited); {
		case host != limited:
			f.warn(key, "has no effect: the calls of %q count against %s; write [%s]", u.Name, host, join("limits", host))
		case u.URL != "": // a variable holds its host
			f.warn(key, "has no effect: the calls of %q count against the host of its url; write [limits.\"HOST\"]", u.Name)
		}
	}
}

// checkUpstream checks that the upstream has either command or url, with only the keys that belong
// to it, and the syntax of every ${NAME}.
func (f *findings) checkUpstream(key string, u Upstream) {
	if u.SharedIdentity && u.Instances != "shared" {
		f.problem(join(key, "shared_identity"), `has no meaning without instances = "shared"`)
	}
	if strings.Contains(u.Domain, "://") {
		f.warn(join(key, "domain"), `want a host, such as "db.example", or a name of your own, have a URL`)
	}
	if u.Provider != "" && u.Provider != valuemodel.NoProvider {
		if known := valuemodel.ProviderNames(); !slices.Contains(known, u.Provider) {
			f.problem(join(key, "provider"), "no provider model is named %q%s", u.Provider, nearest.Question(u.Provider, known))
		}
	}
	checkSyntax := func(name, s string) string {
		if _, err := expand(s, placeholder); err != nil {
			f.problem(key+"."+name, "%v", err)
		}
		for _, m := range reference().FindAllStringSubmatch(s, -1) {
			if strings.Contains(m[2], "${") {
				f.warn(key+"."+name, "a default ends at its first }, and no variable in it is expanded: write none inside ${%s:-…}", m[1])
			}
		}
		return s
	}
	checkSyntax("env_file", u.EnvFile)
	u.mapStrings(checkSyntax)
	for name, path := range map[string]string{"command": u.Command, "cwd": u.Cwd, "env_file": u.EnvFile} {
		if m := shellVariable().FindStringSubmatch(path); m != nil {
			f.warn(join(key, name), "no shell expands $%s here: write ${%s}", m[1], m[1])
		}
	}
	switch {
	case u.Command != "" && u.URL != "":
		f.problem(join(key, "url"), "want either command or url, have both")
	case u.Command != "":
		f.checkUnset(key, "without url", map[string]bool{"transport": u.Transport != "", "headers": len(u.Headers) > 0})
		if program, _, several := strings.Cut(u.Command, " "); several && program != "" && !strings.ContainsAny(program, `/\$`) {
			f.problem(join(key, "command"), `want one program without its arguments: command = %q, with each argument as a string of args`, program)
		}
	case u.URL != "":
		f.checkUnset(key, "without command", map[string]bool{"args": len(u.Args) > 0, "cwd": u.Cwd != "", "env": len(u.Env) > 0})
		if message := urlProblem(u.URL); message != "" && !strings.Contains(u.URL, "${") { // else Resolve checks it
			f.problem(join(key, "url"), "%s", message)
		}
	case !f.failed(join(key, "command")) && !f.failed(join(key, "url")) && !f.failed(key):
		f.problem(key, "want command or url")
	}
}

// checkUnset reports the keys of an upstream that are set although they belong to the other kind.
func (f *findings) checkUnset(upstream, when string, isSet map[string]bool) {
	for name, set := range isSet {
		if set {
			f.problem(join(upstream, name), "has no meaning %s", when)
		}
	}
}

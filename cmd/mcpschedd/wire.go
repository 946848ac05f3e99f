package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/secret"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// proxyOptions converts a configuration to the options of the proxy that serves a workplace. An
// upstream with an unset variable is included, so that it can report the error when called.
func proxyOptions(at workplace, c *config.Config, dir state.Dir, log *slog.Logger) proxy.Options {
	o := proxy.Options{
		Fixed: proxy.Fixed{
			Version: version(), NameStyle: c.Server.NameStyle, StartupWait: c.Server.StartupWait, DrainTimeout: c.Server.DrainTimeout,
			MaxMessage: c.Server.MaxMessageBytes, Selection: selection(at, c, dir), HTTP: c.HTTP.HTTPOptions, Log: log,
		},
		Models:     c.Models,
		Dedup:      c.Dedup.Options,
		Limits:     c.Limits,
		Repeat:     c.Dedup.Repeat,
		Enrichment: c.Enrichment,
		Budgets:    c.Budgets,
		Plans:      c.Plan,
		ConfigPath: c.Path,
		Record:     record.Options{Full: c.Telemetry.RecordArguments == "full", Off: c.Telemetry.Events == "off"},
	}
	o.Plans.Named = c.Plans
	o.HTTP.SessionIdle = cmp.Or(o.HTTP.SessionIdle, math.MaxInt64) // 0 means never
	for _, u := range c.Upstreams {
		switch {
		case !u.Enabled:
		case at.offers != nil && !at.offers(u):
			o.OtherUpstreams++ // it counts when tool names are decided, so that a client's rules hold in every directory
		default:
			o.Upstreams = append(o.Upstreams, wire(at, c, u, dir))
		}
	}
	return o
}

// selection converts the settings of tool selection. What is learned from searches is kept for each
// directory.
func selection(at workplace, c *config.Config, dir state.Dir) catalog.Selection {
	s := catalog.Selection{Tools: c.Server.Tools, Over: c.Server.SearchOver, OnlyRead: c.Server.SearchReach == "read_only"}
	if len(c.Server.Pinned) > 0 {
		s.Pins = config.Filter{Allow: c.Server.Pinned}.Allows
	}
	if file := "learned/tools-" + fingerprint("tools", at.dir())[:16]; dir != (state.Dir{}) {
		s.Keep = func(merge func([]byte) ([]byte, error)) error { return dir.Update(file, merge) }
	}
	return s
}

// wire resolves one upstream.
func wire(at workplace, c *config.Config, u config.Upstream, dir state.Dir) catalog.Upstream {
	missing, named := false, []string{"PWD"}
	r, err := u.Resolve(func(name string) (string, bool) {
		value, set := at.lookup(name)
		missing, named = missing || !set, append(named, name)
		return value, set
	})
	if at.named {
		at.env = daemon.Base(at.env, named...)
	}
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")) // one line for stats
	}
	if err != nil && missing && at.shares {
		err = fmt.Errorf("%w; set it and start the client, or mcpschedd call, again, or put it into env_file", err)
	}
	return wireResolved(at, c, u, r, err, dir)
}

// wireResolved converts an upstream with resolved variables; err says why they could not be
// resolved. Without a state directory nothing about it is persisted.
func wireResolved(at workplace, c *config.Config, u, r config.Upstream, err error, dir state.Dir) catalog.Upstream {
	recognised := valuemodel.Recognise(valuemodel.Settings{Command: r.Command, Args: r.Args, Env: r.Env, URL: r.URL})
	spec := upstream.Spec{
		Name:         u.Name,
		URL:          r.URL,
		SSE:          u.Transport == "sse",
		Shared:       u.Instances == "shared",
		StartTimeout: c.Server.StartTimeout,
		MaxMessage:   c.Server.MaxMessageBytes,
		Secrets:      secrets(at, r),
		Unusable:     err,
	}
	if r.URL == "" {
		spec.Shared = spec.Shared || at.shares && recognised.Shareable && c.Positions[config.Key("upstreams", u.Name, "instances")] == 0
		spec.NoCapabilities = spec.Shared && at.shares // its clients have different capabilities
		spec.Command = upstream.Command{Path: r.Command, Args: r.Args, Dir: cmp.Or(r.Cwd, at.folder), Env: at.environment(r.Env)}
	} else {
		spec.Proxy, spec.Header = at.proxy(), make(http.Header)
		for name, value := range r.Headers {
			spec.Header.Set(name, value)
		}
	}
	offer := "offers/" + u.Name + "-" + fingerprint(r.Command, r.Args, r.Cwd, r.URL, slices.Sorted(maps.Keys(r.Env)))[:16] + ".json"
	wired := catalog.Upstream{
		Spec:        spec,
		Fingerprint: fingerprint(r.Command, r.Args, r.Cwd, r.URL, map[string]string(r.Env), map[string]string(r.Headers), spec.SSE, spec.Shared, spec.StartTimeout, err != nil),
		Timeout:     u.Timeout,
		Allows:      u.Tools.Allows,
		Model: valuemodel.Upstream{
			Name: u.Name, URL: cmp.Or(r.URL, u.URL), // even unresolved, a URL distinguishes HTTP from a process
			Provider: u.Provider, Trust: u.Trust, Domain: u.Domain, Remote: u.Remote, Inferred: valuemodel.InferHost(r.Args, r.Env),
			Recognised: recognised, Sources: make(map[string]string),
		},
		SharedIdentity: u.SharedIdentity,
		Exclusive:      u.Exclusive,
	}
	for _, key := range []string{"url", "domain", "remote"} {
		if where := c.Where(config.Key("upstreams", u.Name, key)); where != "" {
			wired.Model.Sources[key] = where
		}
	}
	if c.Dedup.Store != "" {
		wired.LearnedKey = learnedKey(c, u.Name, r)
	}
	if dir == (state.Dir{}) {
		return wired
	}
	wired.Stderr, wired.Learned = daemon.OpenLog(dir.Path(""), upstreamLog(u.Name)), learnedStorage(at, dir, u, r)
	wired.Store = upstream.Store{
		Load: func() ([]byte, error) { return dir.Read(offer) },
		Save: func(data []byte) error { return dir.Write(offer, data) },
	}
	return wired
}

// withProxy runs a proxy for the duration of use.
func withProxy(o proxy.Options, use func(*proxy.Server)) {
	guard := upstream.NewGuard(o.Log)
	defer guard.Close()
	srv := proxy.New(o, guard)
	defer srv.Close()
	use(srv)
}

// learnedStorage returns the storage of the learned state of u, which is r with its variables resolved. State
// about the server is in one file, so that a new project benefits from it, also if ${PWD} is among the arguments.
// Values that sessions used are in a file for each directory and server environment, since another account has
// other values.
func learnedStorage(at workplace, dir state.Dir, u, r config.Upstream) speculate.Storage {
	anywhere, _ := u.Resolve(func(name string) (string, bool) { // what is wrong with it is an error of r
		if name == "PWD" {
			return "${PWD}", true
		}
		return at.lookup(name)
	})
	server := "learned/" + u.Name + "-" + fingerprint("server", anywhere.Command, anywhere.Args, anywhere.Cwd, anywhere.URL)[:16]
	parts := []any{r.Command, r.Args, cmp.Or(r.Cwd, at.dir()), r.URL}
	if len(r.Env)+len(r.Headers) > 0 {
		parts = append(parts, map[string]string(r.Env), map[string]string(r.Headers))
	}
	folder := "learned/" + u.Name + "-" + fingerprint(parts...)[:16]
	return func(merge func(speculate.State) (speculate.State, error)) error {
		return dir.Update(server, func(known []byte) ([]byte, error) {
			next := speculate.State{Server: known}
			err := dir.Update(folder, func(values []byte) (_ []byte, err error) {
				next.Values = values
				next, err = merge(next)
				return next.Values, err
			})
			return next.Server, err
		})
	}
}

// learnedKey returns a key that is equal for replicas that reach a server as the same principal with
// the same rules for tools.
func learnedKey(c *config.Config, name string, r config.Upstream) string {
	parts := []any{speculate.LearnedVersion, name, r.Command, r.Args, r.Cwd, r.URL}
	parts = append(parts, map[string]string(r.Env), map[string]string(r.Headers), c.Enrichment)
	for _, rule := range c.Tools {
		parts = append(parts, rule.Pattern, rule.Layer)
	}
	return fingerprint(parts...)
}

// secrets returns the values of a server's environment that must never be shown: all configured
// ones, and inherited ones with names that mark them as secrets.
func secrets(at workplace, r config.Upstream) []string {
	all := slices.Collect(maps.Values(r.Env))
	for _, variable := range at.env {
		if name, value, _ := strings.Cut(variable, "="); secret.Named(name, value) {
			all = append(all, value)
		}
	}
	return all
}

// fingerprint returns a hash that identifies values without revealing them.
func fingerprint(parts ...any) string {
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err) // strings, numbers, rules and maps of them always marshal
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

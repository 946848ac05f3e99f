package main

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"mcpschedd/internal/config"
	"mcpschedd/internal/upstream"
)

// workplace is the directory and the environment that a client's servers get.
type workplace struct {
	folder string                     // "" means the working directory of this process
	env    []string                   // NAME=value
	named  bool                       // servers get base variables and those that their own blocks name
	shares bool                       // several clients may share it
	offers func(config.Upstream) bool // whether its sessions have the upstream; nil means all
}

// offeredIn returns whether sessions in a directory, or over HTTP if it is "", have an upstream.
func offeredIn(folder string) func(config.Upstream) bool {
	return func(u config.Upstream) bool { return u.In(folder) }
}

// ownWorkplace returns the workplace of this process.
func ownWorkplace() workplace { return workplace{env: os.Environ()} }

// connectedWorkplace returns the workplace that a client of the daemon has if connect is started where this
// process was.
func connectedWorkplace() workplace { return workplace{env: os.Environ(), named: true} }

// dir returns the directory; "" if that of this process is unknown.
func (w workplace) dir() string {
	own, _ := os.Getwd()
	return cmp.Or(w.folder, own)
}

// lookup is [os.LookupEnv] for the workplace. If a variable occurs several times, the last one
// counts.
func (w workplace) lookup(name string) (value string, set bool) {
	for _, variable := range w.env {
		n, v, _ := strings.Cut(variable, "=")
		if n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name) {
			value, set = v, true
		}
	}
	return value, set
}

// environment returns the workplace's environment with an upstream's variables added.
func (w workplace) environment(add config.Secrets) []string {
	env := slices.Clone(w.env)
	for _, name := range slices.Sorted(maps.Keys(add)) {
		env = append(env, name+"="+add[name])
	}
	return env
}

// proxy returns the function that chooses the HTTP proxy for a URL by the workplace's variables, those in
// lower case first, like [httpproxy.FromEnvironment].
func (w workplace) proxy() upstream.ProxyFunc {
	either := func(name string) string {
		lower, _ := w.lookup(strings.ToLower(name))
		upper, _ := w.lookup(name)
		return cmp.Or(lower, upper)
	}
	c := httpproxy.Config{HTTPProxy: either("HTTP_PROXY"), HTTPSProxy: either("HTTPS_PROXY"), NoProxy: either("NO_PROXY")}
	return c.ProxyFunc()
}

package main

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"mcpschedd/internal/config"
)

// workplace is where a client works: the folder and the environment that its servers get.
type workplace struct {
	elsewhere string   // the folder; "": that of this process
	env       []string // NAME=value
	shares    bool     // several clients work there
}

// ownWorkplace is where this process works.
func ownWorkplace() workplace { return workplace{env: os.Environ()} }

// dir is the folder: what is asked of a server in one project says little of another.
func (w workplace) dir() string { return cmp.Or(w.elsewhere, workingDir()) }

// workingDir is the folder of this process; "": it is not known.
func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

// lookup is [os.LookupEnv] of the workplace: of several variables of one name the last counts.
func (w workplace) lookup(name string) (value string, set bool) {
	for _, variable := range w.env {
		n, v, _ := strings.Cut(variable, "=")
		if n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name) {
			value, set = v, true
		}
	}
	return value, set
}

// environment is the workplace's with an upstream's added.
func (w workplace) environment(add config.Secrets) []string {
	env := slices.Clone(w.env)
	for _, name := range slices.Sorted(maps.Keys(add)) {
		env = append(env, name+"="+add[name])
	}
	return env
}

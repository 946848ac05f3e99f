package config

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Upstream is one [upstreams.*] block: a command spoken to over its pipes, or
// a url, with a field for each key. Its strings still hold ${NAME}; [Upstream.Resolve] expands
// them.
type Upstream struct {
	Name string // letters, digits, - and single _ inside, so that upstream__tool has one reading
	Dir  string // the file's folder, from which relative paths start

	Mistake error // what is wrong with the block of a file that is served all the same

	Command        string   `toml:"command"`
	Args           []string `toml:"args"`
	Cwd            string   `toml:"cwd"`      // default "": the client's
	Env            Secrets  `toml:"env"`      // added to the child's environment
	EnvFile        string   `toml:"env_file"` // NAME=value lines, under env
	URL            string   `toml:"url"`
	Transport      string   `toml:"transport" enum:"|sse"` // default "": streamable HTTP, then SSE
	Headers        Secrets  `toml:"headers"`
	Enabled        bool     `toml:"enabled" default:"true"`
	Provider       string   `toml:"provider"`
	Trust          bool     `toml:"trust"`
	Domain         string   `toml:"domain"`  // default "": the remote host, or "local"
	Remote         *bool    `toml:"remote"`  // default: as the url, the provider or the host that its settings name say
	Folders        []string `toml:"folders"` // default none: sessions everywhere have it
	Exclusive      bool     `toml:"exclusive"`
	Instances      string   `toml:"instances" enum:"|session|shared"` // default session for a command, shared for a url
	SharedIdentity bool     `toml:"shared_identity"`
	Timeout        Duration `toml:"timeout"` // per call; default 0: none
	Tools          Filter   `toml:"tools"`
}

// each hands every string that may hold ${NAME}, but for that of env_file, to f with its key
// below the upstream, and returns the upstream with what f gives in their places.
func (u Upstream) each(f func(key, s string) string) Upstream {
	u.Command, u.Cwd, u.URL = f("command", u.Command), f("cwd", u.Cwd), f("url", u.URL)
	u.Args = slices.Clone(u.Args)
	for i, arg := range u.Args {
		u.Args[i] = f(element("args", i), arg)
	}
	table := func(key string, values Secrets) Secrets {
		out := make(Secrets, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			out[name] = f(join(key, name), values[name])
		}
		return out
	}
	u.Env, u.Headers = table("env", u.Env), table("headers", u.Headers)
	return u
}

// In says whether sessions that work in dir, an absolute path, have this upstream. Links are
// followed, so that it does not matter by which name a client knows a folder.
func (u Upstream) In(dir string) bool {
	return len(u.Folders) == 0 || dir != "" && slices.ContainsFunc(u.Folders, func(folder string) bool {
		below, err := filepath.Rel(behindLinks(absolute(folder, u.Dir)), behindLinks(dir))
		return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
	})
}

func behindLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// Filter chooses tools by globs in which * stands for anything.
type Filter struct {
	Allow []string `toml:"allow"` // default ["*"]
	Deny  []string `toml:"deny"`  // wins over allow
}

// Allows says whether the upstream's tool of this name is offered.
func (f Filter) Allows(tool string) bool {
	matches := func(pattern string) bool {
		if pattern == "*" { // asked on every call
			return true
		}
		// path.Match stops * at a slash, which a tool's name may hold: a deny
		// list must not be passed by one.
		ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(tool, "/", "\x00"))
		return ok && err == nil
	}
	return slices.ContainsFunc(f.Allow, matches) && !slices.ContainsFunc(f.Deny, matches)
}

// Secrets maps names to values that are printed by their names only.
type Secrets map[string]string

// Format prints the names, whatever the verb.
func (s Secrets) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%v", slices.Sorted(maps.Keys(s)))
}

// MarshalJSON gives the names, as a JSON log line shows them.
func (s Secrets) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.Sorted(maps.Keys(s)))
}

// Resolved is how to reach an upstream, with every ${NAME} filled in. It is
// secret, and prints as its name.
type Resolved struct {
	Name    string
	Command string   // absolute path, or a name to look up in PATH; "" for a url
	Args    []string // without the command
	Cwd     string   // absolute; "": the client's
	Env     Secrets  // to add to the environment: env_file's lines under env's
	URL     string   // "" for a command
	Headers Secrets

	Note error // what was left out, an [*Unresolved]; nil: nothing
}

// Format prints the name, whatever the verb.
func (r Resolved) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, r.Name)
}

// MarshalJSON gives the name, as a JSON log line shows it.
func (r Resolved) MarshalJSON() ([]byte, error) { return json.Marshal(r.Name) }

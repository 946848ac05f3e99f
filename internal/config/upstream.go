package config

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"mcpschedd/internal/paths"
	"mcpschedd/internal/valuemodel"
)

// Upstream is an [upstreams.*] block, with a field for each key: an MCP server that is either a
// command, spoken to over its pipes, or a URL. [Upstream.Resolve] expands ${NAME} in command, args, cwd,
// env, env_file, url and headers.
type Upstream struct {
	Name string `block:"upstream"`
	Dir  string // directory of the file; relative paths are relative to it

	Err error // reason why [Error.Salvage] disabled the upstream; Resolve returns it

	Command        string        `toml:"command" form:"path"`
	Args           []string      `toml:"args"`
	Cwd            string        `toml:"cwd" form:"path"`      // working directory; default "": the client's
	Env            Secrets       `toml:"env" keys:"variable"`  // added to the process's environment
	EnvFile        string        `toml:"env_file" form:"path"` // file of NAME=value lines, overridden by Env
	URL            string        `toml:"url"`
	Transport      string        `toml:"transport" enum:"|sse"` // default "": tries streamable HTTP, then SSE
	Headers        Secrets       `toml:"headers" keys:"header"`
	Enabled        bool          `toml:"enabled" default:"true"`
	Provider       string        `toml:"provider"`                         // value models to use; default "": detected; "none": no provider's models
	Trust          bool          `toml:"trust"`                            // trust the server's name and its readOnlyHint
	Domain         string        `toml:"domain"`                           // default "": the remote host, else "local"
	Remote         *bool         `toml:"remote"`                           // default nil: derived from the URL, the provider or a host in Args and Env
	Folders        []string      `toml:"folders" form:"literal"`           // the server is offered to sessions in these directories; default: all
	Exclusive      bool          `toml:"exclusive"`                        // only calls through this proxy change the data it reads
	Instances      string        `toml:"instances" enum:"|session|shared"` // default: session for a command, shared for a URL
	SharedIdentity bool          `toml:"shared_identity"`                  // with shared instances: all sessions are the same user there
	Timeout        time.Duration `toml:"timeout"`                          // per call; default 0: none
	Tools          Filter        `toml:"tools"`
}

// mapStrings returns the upstream with every string that may hold ${NAME}, except EnvFile,
// replaced by f(key, string). The key is relative to the upstream's block.
func (u Upstream) mapStrings(f func(key, s string) string) Upstream {
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

// In reports whether the server is offered to sessions with the working directory dir, an absolute
// path. It resolves symbolic links, because a client may name a directory by a link.
func (u Upstream) In(dir string) bool {
	return len(u.Folders) == 0 || dir != "" && slices.ContainsFunc(u.Folders, func(folder string) bool {
		return paths.Within(paths.WithoutLinks(dir), paths.WithoutLinks(paths.Absolute(folder, u.Dir)))
	})
}

// Filter selects tools by globs, in which * matches any string.
type Filter struct {
	Allow []string `toml:"allow" form:"glob"` // default ["*"]
	Deny  []string `toml:"deny" form:"glob"`  // wins over allow
	Also  *Filter  // another one that must allow a tool too; nil for none
}

// Allows reports whether clients are offered the tool.
func (f Filter) Allows(tool string) bool {
	matches := func(pattern string) bool { return valuemodel.Glob(pattern, tool) }
	return slices.ContainsFunc(f.Allow, matches) && !slices.ContainsFunc(f.Deny, matches) && (f.Also == nil || f.Also.Allows(tool))
}

// Secrets maps names to secret values. Only the names are ever printed.
type Secrets map[string]string

// Format prints the names for every verb.
func (s Secrets) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%v", slices.Sorted(maps.Keys(s)))
}

// MarshalJSON encodes the names, for JSON logs.
func (s Secrets) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.Sorted(maps.Keys(s)))
}

// Format prints the name for every verb: expanded arguments and URLs may contain secrets.
func (u Upstream) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.Name) }

// MarshalJSON encodes the name, for JSON logs.
func (u Upstream) MarshalJSON() ([]byte, error) { return json.Marshal(u.Name) }

package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/config"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, filepath.Join(dir, "pipeline_config.toml"), "") // a cloned repository's file, which Search must not find
	write(t, filepath.Join(dir, "mcpschedd", "pipeline_config.toml"), "")
	flag, named := filepath.Join(dir, "flag.toml"), filepath.Join(dir, "named.toml")
	write(t, flag, "")
	write(t, named, "")
	xdg, home, empty := filepath.Join(dir, "xdg"), filepath.Join(dir, "home"), filepath.Join(dir, "empty")
	inXDG := filepath.Join(xdg, "mcpschedd", "pipeline_config.toml")
	inHome := filepath.Join(home, ".config", "mcpschedd", "pipeline_config.toml")
	inEmpty := filepath.Join(empty, "mcpschedd", "pipeline_config.toml")
	write(t, inXDG, "")
	write(t, inHome, "")

	for _, tt := range []struct {
		name, flag string
		env        map[string]string
		want       string
		found      bool
		err        string
	}{
		{name: "flag first", flag: flag, env: map[string]string{"MCPSCHEDD_CONFIG": named, "HOME": home}, want: flag, found: true},
		{name: "relative flag", flag: "flag.toml", want: flag, found: true},
		{name: "missing flag", flag: "none.toml", env: map[string]string{"HOME": home}, err: "none.toml"},
		{name: "variable", env: map[string]string{"MCPSCHEDD_CONFIG": named, "XDG_CONFIG_HOME": xdg}, want: named, found: true},
		{name: "missing variable", env: map[string]string{"MCPSCHEDD_CONFIG": named + "x", "HOME": home}, err: "named.tomlx"},
		{name: "relative variable", env: map[string]string{"MCPSCHEDD_CONFIG": "named.toml"}, err: "want an absolute path"},
		{name: "xdg", env: map[string]string{"XDG_CONFIG_HOME": xdg, "HOME": home}, want: inXDG, found: true},
		{name: "missing in xdg", env: map[string]string{"XDG_CONFIG_HOME": empty, "HOME": home}, want: inEmpty},
		{name: "relative xdg", env: map[string]string{"XDG_CONFIG_HOME": ".", "HOME": home}, want: inHome, found: true},
		{name: "home", env: map[string]string{"HOME": home}, want: inHome, found: true},
		{name: "relative home", env: map[string]string{"HOME": "."}},
		{name: "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, found, err := config.Search(tt.flag, func(name string) string { return tt.env[name] })
			if got != tt.want || found != tt.found || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v, %v; want %q, %v, %q", got, found, err, tt.want, tt.found, tt.err)
			}
		})
	}
}

func TestStateDir(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       string
	}{
		{"configured", "server.state_dir = \"/s\"", map[string]string{"HOME": "/h"}, "/s"},
		{"xdg", "", map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/mcpschedd"},
		{"home", "", map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/mcpschedd"},
		{"none", "", nil, ""},
	} {
		got, err := parse(t, tt.file).StateDir(func(name string) string { return tt.env[name] })
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := config.Load(filepath.Join(dir, "none.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v, want fs.ErrNotExist", err)
	}
	if _, err := config.Load(dir); err == nil {
		t.Error("a folder: got no error, want one")
	}
	path := filepath.Join(dir, "c.toml")
	write(t, path, "\ufeff[log]\r\nlevel = \"debug\"\r\n")
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Level != "debug" || c.Path != path || c.Positions["log.level"] != 2 {
		t.Errorf("byte order mark and CRLF: got level %q, path %q, line %d", c.Log.Level, c.Path, c.Positions["log.level"])
	}
	write(t, path, "#"+strings.Repeat("x", 1<<20))
	if _, err := config.Load(path); err == nil || !strings.Contains(err.Error(), "at most 1MiB") {
		t.Errorf("a large file: got %v, want its bound", err)
	}
	if _, err := config.Parse("f", []byte("a = "+strings.Repeat("[", 500_000))); err == nil || !strings.HasPrefix(err.Error(), "f:1:") {
		t.Errorf("deep nesting: got %.100v, want an error at f:1", err)
	}
}

// TestSalvage checks the configuration used despite a file's problems.
func TestSalvage(t *testing.T) {
	good := "[plan]\nmutations = \"deny\"\n[upstreams.a]\ncommand = \"a\"\ntools = { deny = [\"x\"] }\n[upstreams.gone]\ncommand = \"g\"\n"
	tests := []struct {
		name, good, text string
		want             string // upstream: command, denied tools, off if disabled
		mutations        string
	}{
		{"an upstream", "", "[upstreams.a]\ncommand = 3\n[upstreams.b]\ncommand = \"b\"\n", "a: [] off; b: b []", "confirm"},
		{"elsewhere", good, "log.x = 1\n[plan]\nmutations = \"allow\"\n[upstreams.a]\ncommand = \"new\"\ntools = { deny = [\"y\"] }\n[upstreams.b]\ncommand = \"b\"\n", "a: a [x y]; b: b [] off", "deny"},
		{"elsewhere, and the new one is stricter", "[upstreams.a]\ncommand = \"a\"\n", "log.x = 1\n[plan]\nmutations = \"deny\"\n[upstreams.a]\ncommand = \"a\"\n", "a: a []", "deny"},
		{"elsewhere, with no good one", "", "log.x = 1\n[upstreams.a]\ncommand = \"a\"\n", "", "confirm"},
		{"no TOML", good, "[upstreams.a\n", "", "confirm"},
		{"a name", "", "[upstreams.\"a/b\"]\ncommand = \"a\"\n[upstreams.b]\ncommand = \"b\"\n", "b: b []", "confirm"},
	}
	for _, tt := range tests {
		var last *config.Config
		if tt.good != "" {
			last = parse(t, tt.good)
		}
		_, err := config.Parse("/etc/mcp/c.toml", []byte(tt.text))
		broken, ok := errors.AsType[*config.Error](err)
		if !ok {
			t.Errorf("%s: got %v, want mistakes", tt.name, err)
			continue
		}
		c := broken.Salvage(last)
		var all []string
		for _, u := range c.Upstreams {
			one := strings.TrimSpace(fmt.Sprintf("%s: %s %v", u.Name, u.Command, u.Tools.Deny))
			one = strings.ReplaceAll(one, ":  ", ": ")
			if u.Err != nil {
				one += " off"
			}
			all = append(all, one)
		}
		if got := strings.Join(all, "; "); got != tt.want || c.Plan.Mutations != tt.mutations || c.Path != "/etc/mcp/c.toml" || c.Digest == [32]byte{} {
			t.Errorf("%s: got %q, mutations %s, path %s", tt.name, got, c.Plan.Mutations, c.Path)
		}
	}
}

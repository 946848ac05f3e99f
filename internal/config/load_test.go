package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/config"
	"mcpschedd/internal/paths"
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

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := config.Default().Load(filepath.Join(dir, "none.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v, want fs.ErrNotExist", err)
	}
	if _, err := config.Default().Load(dir); err == nil {
		t.Error("a folder: got no error, want one")
	}
	path := filepath.Join(dir, "c.toml")
	write(t, path, "\ufeff[log]\r\nlevel = \"debug\"\r\n")
	c, err := config.Default().Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Log.Level != "debug" || c.Path != path || c.Positions["log.level"] != 2 {
		t.Errorf("byte order mark and CRLF: got level %q, path %q, line %d", c.Log.Level, c.Path, c.Positions["log.level"])
	}
	write(t, path, "#"+strings.Repeat("x", 1<<20))
	if _, err := config.Default().Load(path); err == nil || !strings.Contains(err.Error(), "at most 1048576 bytes") {
		t.Errorf("a large file: got %v, want its bound", err)
	}
	if _, err := config.Default().Parse("f", []byte("a = "+strings.Repeat("[", 500_000))); err == nil || !strings.HasPrefix(err.Error(), "f:1:") {
		t.Errorf("deep nesting: got %.100v, want an error at f:1", err)
	}
}

// Each block is looked up by itself, so the cost of a file is in proportion to its length.
func TestCostOfManyBlocks(t *testing.T) {
	cost := func(blocks int) float64 {
		var text strings.Builder
		for n := range blocks {
			fmt.Fprintf(&text, "[tools.\"server/a_tool_with_a_long_name_%d\"]\nvolatile = true\n", n)
		}
		return testing.AllocsPerRun(1, func() {
			if _, err := config.Default().Parse("c.toml", []byte(text.String())); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := cost(100), cost(400); many > 6*few {
		t.Errorf("%.0f allocations for 100 blocks, %.0f for 400", few, many)
	}
}

// TestSalvage checks the configuration used despite a file's problems.
func TestSalvage(t *testing.T) {
	good := "[plan]\nmutations = \"deny\"\n[upstreams.a]\ncommand = \"a\"\ntools = { deny = [\"x\"] }\n[upstreams.gone]\ncommand = \"g\"\n"
	tests := []struct {
		name, good, text string
		want             string // upstream: command and the tools that it may offer, of four; off if disabled
		mutations        string
	}{
		{"an upstream", "", "[upstreams.a]\ncommand = 3\n[upstreams.b]\ncommand = \"b\"\n", "a: off; b: b get_a get_b x y", "confirm"},
		{
			"a plan", good, "[plans.x]\nsteps = [{ id = \"b\", tool = \"a/x\", arguments = { n = { \"$ref\" = \"zz#/x\" } } }]\noutput_steps = [\"c\"]\n[plans.y]\n" +
				"steps = [{ id = \"b\", tool = \"a/x\" }]\n[upstreams.a]\ncommand = \"a\"\n", "a: a get_a get_b x y; plan y", "confirm",
		},
		{"elsewhere", good, "log.x = 1\n[plan]\nmutations = \"allow\"\n[upstreams.a]\ncommand = \"new\"\ntools = { deny = [\"y\"] }\n[upstreams.b]\ncommand = \"b\"\n", "a: a get_a get_b; b: b off", "deny"},
		{"elsewhere, and the new one allows less", "[upstreams.a]\ncommand = \"a\"\n", "log.x = 1\n[upstreams.a]\ncommand = \"a\"\ntools.allow = [\"get_*\"]\n", "a: a get_a get_b", "confirm"},
		{"elsewhere, and both allow some", "[upstreams.a]\ncommand = \"a\"\ntools.allow = [\"get_*\", \"x\"]\n", "log.x = 1\n[upstreams.a]\ncommand = \"a\"\ntools.allow = [\"get_a\", \"x\", \"y\"]\n", "a: a get_a x", "confirm"},
		{"elsewhere, and the new one is stricter", "[upstreams.a]\ncommand = \"a\"\n", "log.x = 1\n[plan]\nmutations = \"deny\"\n[upstreams.a]\ncommand = \"a\"\n", "a: a get_a get_b x y", "deny"},
		{"elsewhere, with no good one", "", "log.x = 1\n[upstreams.a]\ncommand = \"a\"\n", "", "confirm"},
		{"no TOML", good, "[upstreams.a\n", "", "confirm"},
		{"a name", "", "[upstreams.\"a/b\"]\ncommand = \"a\"\n[upstreams.b]\ncommand = \"b\"\n", "b: b get_a get_b x y", "confirm"},
	}
	for _, tt := range tests {
		var last *config.Config
		if tt.good != "" {
			last = parse(t, tt.good)
		}
		_, err := config.Default().Parse("/etc/mcp/c.toml", []byte(tt.text))
		broken, ok := errors.AsType[*config.Error](err)
		if !ok {
			t.Errorf("%s: got %v, want mistakes", tt.name, err)
			continue
		}
		c := broken.Salvage(last)
		var all []string
		for _, u := range c.Upstreams {
			one := u.Name + ": " + u.Command
			for _, tool := range []string{"get_a", "get_b", "x", "y"} {
				if u.Err == nil && u.Tools.Allows(tool) {
					one += " " + tool
				}
			}
			if u.Err != nil {
				one = strings.TrimSpace(one) + " off"
			}
			all = append(all, one)
		}
		for _, p := range c.Plans {
			all = append(all, "plan "+p.Name)
		}
		if got := strings.Join(all, "; "); got != tt.want || c.Plan.Mutations != tt.mutations || c.Path != "/etc/mcp/c.toml" || c.Digest == [32]byte{} {
			t.Errorf("%s: got %q, mutations %s, path %s", tt.name, got, c.Plan.Mutations, c.Path)
		}
	}
}

// A value that is wrong counts as the default of its key; the other keys of its section stay. A web origin that
// the newer file does not allow is not allowed either.
func TestSalvageKeepsSoundValues(t *testing.T) {
	text := "[server]\nname_style = \"x\"\nstartup_wait = \"2x\"\nmax_message_bytes = \"3\"\nstart_timeout = \"7s\"\nstate_dir = \"s\"\n" +
		"[http]\nauth = 3\nmax_sessions = -4\nallowed_origins = [\"null\"]\nsession_idle = \"1m\"\n[log]\nlevel = \"x\"\n"
	_, err := config.Default().Parse("/etc/mcp/c.toml", []byte(text))
	broken, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("got %v, want mistakes", err)
	}
	want := config.Default()
	want.Server.StartTimeout, want.Server.StateDir, want.HTTP.SessionIdle = 7*time.Second, "/etc/mcp/s", time.Minute
	got := broken.Salvage(nil)
	if diff := cmp.Diff([]any{want.Server, want.HTTP, want.Log}, []any{got.Server, got.HTTP, got.Log}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	last := parse(t, "http.allowed_origins = [\"http://a\", \"http://b\"]\n")
	_, err = config.Default().Parse("/etc/mcp/c.toml", []byte("log.x = 1\nhttp.allowed_origins = [\"http://b\", \"http://c\"]\n"))
	broken, _ = errors.AsType[*config.Error](err)
	if got := broken.Salvage(last).HTTP.AllowedOrigins; len(got) != 1 || got[0] != "http://b" || len(last.HTTP.AllowedOrigins) != 2 {
		t.Errorf("got origins %v", got)
	}
}

// TestStateDirWithoutConfig checks that the small program finds the daemon of a file with
// mistakes, as it reads only the state directory.
func TestStateDirWithoutConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	for _, text := range []string{
		"", "\ufeff[server]\nstate_dir = \"a\"", "server.state_dir = \"/a\"", "[server]\nState_Dir = \"a\"", "[Server]\nstate_dir = \"a\"",
		"[server]\nstate_dir = 3", "server = 3", "[server]\nstate_dir = \"~/a\"", "[server]\nstate_dir = \"a\"\nname_style = 7\n[tools.x]\ny = 1",
		"[server]\nstate_dir = \"a\"\n[upstreams", "schema_version = 4\n[server]\nstate_dir = \"a\"", "schema_version = 5\n[server]\nstate_dir = \"a\"",
		"[server]\nstate_dir = \"a\"\n[upstreams.x]\nurl = 3", "[server]\nstate_dir = \"a\"\n#" + strings.Repeat("x", 1<<20),
	} {
		write(t, path, text)
		c, err := config.Default().Load(path)
		if broken, ok := errors.AsType[*config.Error](err); ok {
			c = broken.Salvage(nil)
		}
		if got, err := paths.ConfiguredStateDir(path); err != nil || got != c.Server.StateDir {
			t.Errorf("%.60q: got %q, %v; want %q", text, got, err, c.Server.StateDir)
		}
	}
}

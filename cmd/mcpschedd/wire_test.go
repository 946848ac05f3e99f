package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/config"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/state"
)

// What is learned of a server, except values, is used in other folders and with other variables.
func TestLearnedByServerAndFolder(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stored := func(folder, account string, next speculate.State) (before speculate.State) {
		t.Helper()
		t.Chdir(folder) // which sets PWD
		server := config.Upstream{Name: "x", Command: "server", Args: []string{"--root=${PWD}/src"}, Cwd: "${PWD}"}
		if account != "" {
			server.Env = config.Secrets{"ACCOUNT": account}
		}
		only := errors.New("only read")
		resolved, err := server.Resolve(ownWorkplace().lookup)
		if err != nil {
			t.Fatal(err)
		}
		err = learnedStorage(ownWorkplace(), dir, server, resolved)(func(stored speculate.State) (speculate.State, error) {
			if before = stored; next.Server == nil {
				return next, only
			}
			return next, nil
		})
		if err != nil && !errors.Is(err, only) {
			t.Fatal(err)
		}
		return before
	}
	one, other := t.TempDir(), t.TempDir()
	state := speculate.State{Server: []byte("tool"), Values: []byte("constants")}
	if got := stored(one, "", state); len(got.Server)+len(got.Values) > 0 {
		t.Errorf("at first: got %q", got)
	}
	stored(one, "a", state)
	for _, test := range []struct {
		folder, account string
		want            bool
	}{{one, "", true}, {other, "", false}, {one, "a", true}, {one, "b", false}, {other, "a", false}} {
		got := stored(test.folder, test.account, speculate.State{})
		if string(got.Server) != "tool" || (string(got.Values) == "constants") != test.want {
			t.Errorf("%v: got %q; want what belongs to the server, and its values: %v", test, got, test.want)
		}
	}
}

// A server whose variable is not set at a client of the daemon says what to do, also to call.
func TestVariableThatAClientLacks(t *testing.T) {
	c, err := config.Default().Parse("c.toml", []byte("[upstreams.one]\ncommand = \"${MCPSCHEDD_NO_SUCH_VARIABLE}\"\nargs = [\"${NOR_THIS_ONE}\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := wire(workplace{shares: true}, c, c.Upstreams[0], state.Dir{}).Spec.Unusable
	if got == nil || !strings.Contains(got.Error(), "mcpschedd call") || !strings.Contains(got.Error(), "env_file") {
		t.Errorf("got %v, want what a client and call can do", got)
	} else if strings.Contains(got.Error(), "\n") || !strings.Contains(got.Error(), "; upstreams.one.args[0]: ") {
		t.Errorf("got %q, want one line with both variables", got)
	}
}

// A server gets the variables that its own block names, not those of others, which may be their secrets.
func TestVariablesOfOthers(t *testing.T) {
	c, err := config.Default().Parse("c.toml", []byte("[upstreams.one]\ncommand = \"x\"\nargs = [\"${ONE}\"]\nenv.SET = \"${UNSET:-}\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	passed := []string{"HOME=/h", "ONE=1", "OTHER=2", "PWD=/p"}
	if got, want := wire(workplace{named: true, env: passed}, c, c.Upstreams[0], state.Dir{}).Spec.Command.Env, []string{"HOME=/h", "ONE=1", "PWD=/p", "SET="}; !slices.Equal(got, want) {
		t.Errorf("got %q from a client of the daemon, want %q", got, want)
	}
	if got, want := wire(workplace{env: passed}, c, c.Upstreams[0], state.Dir{}).Spec.Command.Env, append(passed, "SET="); !slices.Equal(got, want) {
		t.Errorf("got %q from serve, want %q", got, want)
	}
}

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/demo"
	"mcpschedd/internal/guard"
	"mcpschedd/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	journalMain()
	if filepath.Base(os.Args[0]) == laterProgram {
		daemon.Protocol++
	}
	// The program starts itself under other names. In tests that is this binary.
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "daemon" || os.Args[1] == daemon.Command || os.Args[1] == daemon.HookCommand || os.Args[1] == guard.Command || os.Args[1] == demo.UpstreamCommand) {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"mcpschedd": main})
}

// laterProgram is the name under which this binary acts as a later version, with another version
// of the daemon's protocol.
const laterProgram = "later"

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:  "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(env *testscript.Env) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			env.Setenv("SELF", self) // for a configured upstream: $SELF demo-upstream tracker
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_STATE_HOME", "")
			env.Setenv("XDG_CONFIG_HOME", "")
			env.Setenv("MCPSCHEDD_CONFIG", "")
			env.Setenv("MCPSCHEDD_DEMO_SPEED", "1000")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}

// exits is like exec, but checks the exit code: exits CODE COMMAND...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = strconv.Itoa(exit.ExitCode())
	}
	if code != args[0] {
		ts.Fatalf("got exit code %s, want %s", code, args[0])
	}
}

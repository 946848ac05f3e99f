package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpschedd/internal/demo"
	"mcpschedd/internal/guard"
	"mcpschedd/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	// The program starts itself under other names; here it is this binary.
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == guard.Command || os.Args[1] == demo.UpstreamCommand) {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"mcpschedd": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			env.Setenv("SELF", self) // an upstream to configure: $SELF demo-upstream tracker
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

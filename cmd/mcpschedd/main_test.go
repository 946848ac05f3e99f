package main

import (
	"fmt"
	"os"
	"path/filepath"
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
	if len(os.Args) > 1 && os.Args[1] == runnerCommand {
		if err := runCommands(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testscript.Main(m, map[string]func(){"mcpschedd": main})
}

// laterProgram is the name under which this binary acts as a later version, with another version
// of the daemon's protocol.
const laterProgram = "later"

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/demo"
	"mcpschedd/internal/guard"
	"mcpschedd/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	journalMain()
	daemon.HookTimeout = time.Minute // no report is late
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
	testscript.Main(waiting{m}, map[string]func(){"mcpschedd": main})
}

// waiting runs the tests, twice as many at a time as there are processors, since most of them wait
// for processes.
type waiting struct{ *testing.M }

func (w waiting) Run() int {
	if err := findPrograms(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0)))
	}
	return w.M.Run()
}

// The programs that tests start.
var (
	self          string // this binary as mcpschedd, beside the guard's program
	serverProgram string // the server of mcptest
)

// findPrograms finds the programs, and puts the guard's program beside mcpschedd, which starts it
// in a fifth of the processor time of this binary.
func findPrograms() error {
	guardProgram, err := mcptest.Program(guard.Program)
	if err != nil {
		return err
	}
	if serverProgram, err = mcptest.Program(mcptest.Child); err != nil {
		return err
	}
	if self, err = exec.LookPath("mcpschedd"); err != nil {
		return err
	}
	return os.Symlink(guardProgram, filepath.Join(filepath.Dir(self), guard.Program))
}

// laterProgram is the name under which this binary acts as a later version, with another version
// of the daemon's protocol.
const laterProgram = "later"

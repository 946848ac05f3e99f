package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpschedd/internal/mcptest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"run":   runCommand,
		},
		Setup: func(env *testscript.Env) error {
			tools := make([]string, 129) // one more than some clients accept
			for i := range tools {
				tools[i] = fmt.Sprintf(`"{\"name\":\"t%d\"}"`, i)
			}
			demo, err := mcptest.Program("mcpschedd")
			if err != nil {
				return err
			}
			env.Setenv("DEMO", demo) // for a configured upstream: $DEMO demo-upstream tracker
			env.Setenv("SERVER", serverProgram)
			env.Setenv("MANY", fmt.Sprintf(`{"Tools":[%s]}`, strings.Join(tools, ",")))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_STATE_HOME", "")
			env.Setenv("XDG_CONFIG_HOME", "")
			env.Setenv("MCPSCHEDD_CONFIG", "")
			env.Setenv("MCPSCHEDD_DEMO_SPEED", "1000")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[scriptKey] = &scriptRunner{env: env.Vars}
			return nil
		},
	})
}

// exits checks an exit code: exits CODE mcpschedd ARGUMENT... It runs serve as exec does, and other
// commands as run does.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || args[1] != "mcpschedd" {
		ts.Fatalf("usage: exits CODE mcpschedd ARGUMENT...")
	}
	code := 0
	if args[2] != "serve" {
		code = resultOf(ts, args[2:])
	} else if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("got exit code %d, want %s", code, args[0])
	}
}

// runnerCommand makes this binary the process of a [runner].
const runnerCommand = "run-commands"

// A scriptRunner is the runner of a script, started at its first command.
type scriptRunner struct {
	*runner
	env []string // of the script at its start
	set []string // names of the variables that the script sets
}

const scriptKey = "runner" // of the script's values

// A runner is a process that runs mcpschedd's commands one after another, since starting a process
// takes longer than most of them.
type runner struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

type (
	commandLine struct {
		Args, Env []string
		Dir       string
	}
	commandResult struct {
		Code           int
		Stdout, Stderr string
	}
)

// runCommand is like exec, but the command shares its process with the script's other ones and has
// no stdin: run mcpschedd ARGUMENT...
func runCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 || args[0] != "mcpschedd" {
		ts.Fatalf("usage: run mcpschedd ARGUMENT...")
	}
	if code := resultOf(ts, args[1:]); (code != 0) != neg {
		ts.Fatalf("got exit code %d", code)
	}
}

// resultOf runs a command and returns its exit code.
func resultOf(ts *testscript.TestScript, args []string) int {
	of := ts.Value(scriptKey).(*scriptRunner)
	if of.runner == nil {
		script, err := os.ReadFile(filepath.Join("testdata", ts.Name()+".txtar"))
		ts.Check(err)
		for _, m := range regexp.MustCompile(`(?m)^(?:\[.*\] )?env (\w+)=`).FindAllStringSubmatch(string(script), -1) {
			of.set = append(of.set, m[1])
		}
		of.runner, err = newRunner()
		ts.Check(err)
		ts.Defer(func() { ts.Check(of.runner.close()) })
	}
	dir := ts.MkAbs(".")
	line := commandLine{args, slices.Concat(of.env, []string{"PWD=" + dir}), dir}
	for _, name := range of.set {
		line.Env = append(line.Env, name+"="+ts.Getenv(name))
	}
	result, err := of.runner.run(line)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), result.Stdout)
	fmt.Fprint(ts.Stderr(), result.Stderr)
	return result.Code
}

// newRunner starts the process.
func newRunner() (*runner, error) {
	r := &runner{cmd: exec.Command("mcpschedd", runnerCommand)}
	r.cmd.Stderr = os.Stderr
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = json.NewDecoder(out)
	return r, r.cmd.Start()
}

// run runs a command. It fails if the command has ended the process.
func (r *runner) run(line commandLine) (result commandResult, err error) {
	if err := json.NewEncoder(r.in).Encode(line); err != nil {
		return result, err
	}
	return result, r.out.Decode(&result)
}

// close ends the process.
func (r *runner) close() error {
	r.in.Close()
	return r.cmd.Wait()
}

// runCommands is the process of a [runner].
func runCommands() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var err error
	if os.Stdin, err = os.Open(os.DevNull); err != nil {
		return err
	}
	os.Stdout = os.Stderr
	for {
		var line commandLine
		if err := in.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		os.Clearenv()
		for _, v := range line.Env {
			name, value, _ := strings.Cut(v, "=")
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		if err := os.Chdir(line.Dir); err != nil {
			return err
		}
		var stdout, stderr lockedBuffer
		code := run(context.Background(), line.Args, &stdout, &stderr)
		if err := out.Encode(commandResult{code, stdout.String(), stderr.String()}); err != nil {
			return err
		}
	}
}

// A lockedBuffer may be written by several goroutines, like a file.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

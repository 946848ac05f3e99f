// Command mcpschedd is an MCP proxy: one server in a client's configuration that stands in front
// of all the others. See the README.
//
// This package parses the command line, loads the configuration file, wires a [proxy.Server] from
// it, and maps errors to exit codes: 0 success, 1 failure, 2 usage or configuration. For each
// command, one function returns its cobra.Command and another one runs it.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"mcpschedd/internal/config"
	"mcpschedd/internal/demo"
	"mcpschedd/internal/guard"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/record"
	"mcpschedd/internal/state"
)

// Exit codes.
const (
	exitFailed = 1 // the work failed
	exitUsage  = 2 // the command line or the configuration is wrong
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == guard.Command { // ends the upstream processes when the proxy exits
		guard.Run(os.Stdin)
		return
	}
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP) // the terminal was closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == demo.UpstreamCommand { // one of the demo's servers
		return report(stderr, demoUpstream(ctx, args[1]))
	}
	return report(stderr, execute(ctx, args, stdout, stderr))
}

// misused is an error in the command line, the environment or the configuration: exit code 2.
type misused struct{ error }

func (m misused) Unwrap() error { return m.error }

// hinted is an error with a hint about the next step, which is printed below it. It unwraps to
// the error.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// report prints an error with its hint, and returns the exit code.
func report(w io.Writer, err error) int {
	switch bad, ok := errors.AsType[*config.Error](err); {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		return exitFailed // interrupted by a signal
	case ok:
		for _, p := range bad.Problems {
			fmt.Fprintf(w, "mcpschedd: error: %s\n", p)
		}
		return exitUsage
	}
	fmt.Fprintf(w, "mcpschedd: error: %s\n", sanitized(err.Error()))
	h, _ := errors.AsType[hinted](err)
	if hint := cmp.Or(ownerHint(err), h.hint); hint != "" {
		fmt.Fprintf(w, "mcpschedd: hint: %s\n", sanitized(hint))
	}
	if _, ok := errors.AsType[misused](err); ok {
		return exitUsage
	}
	return exitFailed
}

// ownerHint returns what to do if a file or folder of root in the user's home directory is the cause of an error, and
// "" otherwise. sudo leaves such ones.
func ownerHint(err error) string {
	denied, ok := errors.AsType[*fs.PathError](err)
	home, noHome := os.UserHomeDir()
	if !ok || !errors.Is(denied, fs.ErrPermission) || noHome != nil {
		return ""
	}
	at, owner := state.Foreign(denied.Path)
	if _, another := state.Foreign(home); owner != "root" || another != "" || !paths.Within(at, home) {
		return ""
	}
	return fmt.Sprintf("%s belongs to root: sudo %s", at, pasted([]string{"chown", "-R", strconv.Itoa(os.Getuid()), at}))
}

// sanitized returns a text from elsewhere with unprintable characters replaced and every line but
// the first prefixed with a bar.
func sanitized(text string) string {
	return strings.ReplaceAll(record.Printable(text, '\n', '\t'), "\n", "\n  | ")
}

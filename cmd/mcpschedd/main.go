// Command mcpschedd is an MCP proxy: one server in a client's configuration
// that stands in front of all the others. See the README.
//
// This package reads flags and the configuration file, wires one
// [proxy.Server] from them, and turns errors into exit codes: 0 fine, 1 the
// work failed, 2 usage or configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"mcpschedd/internal/config"
	"mcpschedd/internal/demo"
	"mcpschedd/internal/guard"
	"mcpschedd/internal/nearest"
)

// Exit codes.
const (
	exitFailed = 1 // the work failed
	exitUsage  = 2 // the command line or the configuration is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is one command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	} else if len(args) > 0 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help") {
		name, args = "help", nil
	} else if len(args) > 0 && (args[0] == "-version" || args[0] == "--version") {
		name, args = "version", nil
	}
	var err error
	switch name {
	case "serve":
		err = serve(ctx, args, stdout, stderr)
	case "demo":
		err = runDemo(ctx, args, stdout, stderr)
	case "check":
		err = check(ctx, args, stdout)
	case "explain":
		err = explain(args, stdout, stderr)
	case "replay":
		err = runReplay(ctx, args, stdout, stderr)
	case "logs":
		err = runLogs(args, stdout)
	case "import":
		err = runImport(ctx, args, stdout, stderr)
	case "add":
		err = runAdd(args, stdout, stderr)
	case "call":
		err = runCall(ctx, args, stdout)
	case "enable", "disable", "remove":
		err = runEdit(name, args, stdout, stderr)
	case "stats":
		err = runStats(ctx, args, stdout, stderr)
	case "dashboard":
		err = runDashboard(ctx, args, stdout, stderr)
	case "tune":
		err = runTune(ctx, args, stdout, stderr)
	case "version":
		_, err = fmt.Fprintln(stdout, "mcpschedd", version())
	case "help":
		err = help(args, stdout)
	case guard.Command: // hidden: ends the upstream processes when the proxy dies
		guard.Run(os.Stdin)
	case demo.UpstreamCommand: // hidden: one of the demo's servers
		err = demoUpstream(ctx, args)
	default:
		err = unknownCommand(name)
	}
	return report(stderr, err)
}

// commands are those that people type.
var commands = []string{
	"serve", "demo", "import", "add", "enable", "disable", "remove", "call", "check", "explain", "stats", "dashboard", "tune", "replay", "version", "help",
}

func unknownCommand(name string) error {
	err := fmt.Errorf("unknown command %q", name)
	if near := nearest.New(commands).To(name); near != "" {
		return hinted{misused{err}, "did you mean mcpschedd " + near + "?"}
	}
	return hinted{misused{err}, "mcpschedd help lists them"}
}

// usageError is a command line that makes no sense.
type usageError struct{ text, usage string }

func (e *usageError) Error() string { return e.text }

// misused is an error of the command line, the environment or the configuration that
// no usage text explains.
type misused struct{ error }

func (m misused) Unwrap() error { return m.error }

// hinted is an error with a next step for the person who reads it. Its kind is that
// of the error.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// report prints an error as people want to read it and returns the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, flag.ErrHelp) {
		return 0 // the usage has been printed
	}
	if errors.Is(err, context.Canceled) {
		return exitFailed // by a signal, which whoever sent it knows
	}
	if bad, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(w, "mcpschedd: error: %s\n", bad.text)
		fmt.Fprintf(w, "mcpschedd: hint: %s\n", strings.SplitN(bad.usage, "\n", 2)[0])
		return exitUsage
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		for _, p := range bad.Problems {
			fmt.Fprintf(w, "mcpschedd: error: %s\n", p)
		}
		fmt.Fprintln(w, "mcpschedd: hint: mcpschedd check prints these again without starting anything")
		return exitUsage
	}
	fmt.Fprintf(w, "mcpschedd: error: %v\n", err)
	if h, ok := errors.AsType[hinted](err); ok {
		fmt.Fprintf(w, "mcpschedd: hint: %s\n", h.hint)
	}
	if _, ok := errors.AsType[misused](err); ok {
		return exitUsage
	}
	return exitFailed
}

// parse reads the flags of one command. Its usage goes to stdout when it was
// asked for; a mistake names the flag.
func parse(fs *flag.FlagSet, args []string, usage string, stdout io.Writer) error {
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return err
	}
	if err != nil {
		return &usageError{text: err.Error(), usage: usage}
	}
	return nil
}

// noArguments refuses what stands behind the flags.
func noArguments(fs *flag.FlagSet, usage string) error {
	if fs.NArg() > 0 {
		return &usageError{text: fmt.Sprintf("unexpected argument %q", fs.Arg(0)), usage: usage}
	}
	return nil
}

// version is the module's, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}

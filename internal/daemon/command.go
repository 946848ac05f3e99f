package daemon

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"time"
)

// Program is the main program. SmallProgram starts it from its own folder, as the daemon or, if
// no daemon can run, to serve the client.
const Program = "mcpschedd"

// SmallProgram contains only Connect and Hook, and starts in an eighth of the time. Program's
// connect command replaces itself with SmallProgram if it is in the same folder.
const SmallProgram = "mcpschedd-small"

// Command is the command of both programs that runs Connect.
const Command = "connect"

// Flags are the flags of the connect command.
type Flags struct {
	Config string // path of the configuration; empty for the default path
	Only   string // the only upstream that the client sees; empty for all
	Wait   time.Duration
}

// DefaultWait is how long a daemon may take to start, and then to complete the handshake.
const DefaultWait = 2 * time.Second

// ParseFlags parses the arguments of the connect command.
func ParseFlags(args []string) (f Flags, err error) {
	set := flag.NewFlagSet(Command, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&f.Config, "config", "", "")
	set.StringVar(&f.Only, "only", "", "")
	set.DurationVar(&f.Wait, "wait", DefaultWait, "")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, errors.New("unexpected argument " + set.Arg(0))
	}
	return f, nil
}

// ServeArgs returns the arguments of mcpschedd to serve the client without a daemon.
func (f Flags) ServeArgs() []string {
	args := []string{"serve"}
	if f.Config != "" {
		args = append(args, "--config", f.Config)
	}
	if f.Only != "" {
		args = append(args, "--only", f.Only)
	}
	return args
}

// Options returns the options of Connect for a state folder and a configuration file, empty for
// the built-in defaults. program is the path of the daemon's program.
func (f Flags) Options(stateDir, config, program string) (Options, error) {
	place, err := NewPlace(stateDir, config)
	o := Options{
		Place: place, Only: f.Only, Wait: f.Wait,
		Start: Start{Program: program, Args: []string{"daemon"}, Log: OpenLog(stateDir, OutputLog).Path},
		Log:   slog.New(slog.NewTextHandler(io.MultiWriter(OpenLog(stateDir, ProgramLog), os.Stderr), nil)).With("connect", os.Getpid()),
	}
	if _, err := os.Stat(config); err == nil { // otherwise the built-in defaults apply
		o.Start.Args = append(o.Start.Args, "--config", config)
	}
	return o, err
}

package daemon

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Program is what a small program that has Connect starts for all else, from its own folder.
const Program = "mcpschedd"

// SmallProgram is a program that has Connect alone, and that in an eighth of the time. It stands beside
// Program, whose own connect gives way to it.
const SmallProgram = "mcpschedd-small"

// Command is the word by which a client starts Connect, in either program.
const Command = "connect"

// Flags are those of Connect.
type Flags struct {
	Config string // the file; "": the usual one
	Only   string // the one upstream that the client sees; "": all
	Wait   time.Duration
}

// DefaultWait is how long a daemon may take to start, and to greet.
const DefaultWait = 2 * time.Second

// ParseFlags reads them.
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

// Serve is the command line of mcpschedd that serves the client without a daemon.
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

// Options are those for a configuration file, "" for the built-in defaults, and the state
// folder that goes with it; program is the one that is the daemon.
func (f Flags) Options(stateDir, config, program string) (Options, error) {
	place, err := NewPlace(stateDir, config)
	o := Options{
		Place: place, Only: f.Only, Wait: f.Wait,
		Start: Start{Program: program, Args: []string{"daemon"}, Log: filepath.Join(stateDir, "logs", "daemon.log")},
		Log:   slog.New(slog.NewTextHandler(&logFile{filepath.Join(stateDir, "logs", "mcpschedd.log"), os.Stderr}, nil)).With("connect", os.Getpid()),
	}
	if _, missing := os.Stat(config); missing == nil { // else the built-in defaults
		o.Start.Args = append(o.Start.Args, "--config", config)
	}
	return o, err
}

// logFile is a log of few lines: it is open only while one is written.
type logFile struct {
	path string
	too  io.Writer // the lines go here as well
}

func (l *logFile) Write(line []byte) (int, error) {
	_ = os.MkdirAll(filepath.Dir(l.path), 0o700)
	if file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil { // a log must end nothing
		_, _ = file.Write(line)
		file.Close()
	}
	return l.too.Write(line)
}

// Package daemon connects the clients of one user to the single process that serves them all,
// and starts that process if necessary.
//
// A client starts [Connect], a small process that speaks MCP on stdio. Connect dials the
// daemon's socket, which is named after the configuration, sends its working directory and
// environment, and then forwards lines in both directions:
//
//	place, err := daemon.NewPlace(stateDir, config)
//	err = daemon.Connect(ctx, os.Stdin, os.Stdout, daemon.Options{Place: place, Start: command, Log: log})
//
// The daemon's end is a [Listener]. The process that holds a lock file is the daemon; it may
// remove a socket left behind by a crash. The protocol version is part of the names of socket
// and lock, so daemons of different versions run side by side.
//
// The package does not link the proxy that a daemon runs, since Connect runs once for each
// client in a small program of its own.
package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// Protocol is the version of the handshake, and of the behaviour that clients expect of the
// daemon afterwards. It is a variable only so that tests can run two versions. The hook of a
// later version must also reach daemons of this version while these have clients.
var Protocol = 1

// ErrRunning means that another process is the daemon.
var ErrRunning = errors.New("the daemon runs already")

const (
	// Program is the main program. SmallProgram starts it from its own folder, as the daemon or,
	// if no daemon can run, to serve the client.
	Program = "mcpschedd"
	// SmallProgram contains only Connect and Hook, and starts in an eighth of the time. Program's
	// connect command replaces itself with SmallProgram if it is in the same folder.
	SmallProgram = "mcpschedd-small"

	Command     = "connect" // the command of both programs that runs Connect
	HookCommand = "hook"    // the command of both programs that runs Hook
)

// DefaultWait is how long a daemon may take to start, and then to complete the handshake.
const DefaultWait = 2 * time.Second

// Options configure [Connect].
type Options struct {
	Config string        // path of the configuration as given in the arguments; empty for the default path
	Only   string        // the only upstream that the client sees; empty for all
	Wait   time.Duration // for the daemon to start, and for the handshake; zero means DefaultWait

	Place     Place
	Start     []string      // command line that starts a daemon; empty if none is to be started
	Log       *slog.Logger  // required; for messages to the user
	PingEvery time.Duration // interval of pings while a request is awaited; zero means 2 s
}

// WantTime describes what a flag with a duration accepts.
const WantTime = "a time with its unit, such as 3s"

// ParseArgs parses the arguments of the connect command.
func ParseArgs(args []string) (o Options, err error) {
	set := flag.NewFlagSet(Command, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.StringVar(&o.Config, "config", "", "")
	set.StringVar(&o.Only, "only", "", "")
	o.Wait = DefaultWait
	set.Func("wait", "", func(text string) (err error) {
		if o.Wait, err = time.ParseDuration(text); err != nil {
			return errors.New("want " + WantTime)
		}
		return nil
	})
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.Wait <= 0 {
		return o, fmt.Errorf("--wait: want more than 0, have %v", o.Wait)
	}
	if set.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return o, nil
}

// ServeArgs returns the arguments of mcpschedd to serve the client without a daemon.
func (o *Options) ServeArgs() []string {
	args := []string{"serve"}
	if o.Config != "" {
		args = append(args, "--config", o.Config)
	}
	if o.Only != "" {
		args = append(args, "--only", o.Only)
	}
	return args
}

// Locate sets the place, the log, and how to start the daemon. config is the path of the
// configuration file that was found, and program that of the daemon's program.
func (o *Options) Locate(stateDir, config, program string) (err error) {
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(OpenLog(stateDir, ProgramLog), Stderr(os.Stderr)), nil)).With("connect", os.Getpid())
	o.Start = []string{program, "daemon"}
	if _, err := os.Stat(config); err == nil { // otherwise the built-in defaults apply
		o.Start = append(o.Start, "--config", config)
	}
	o.Place, err = NewPlace(stateDir, config)
	return err
}

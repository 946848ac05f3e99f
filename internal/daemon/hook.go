package daemon

import (
	"io"
	"log/slog"
	"os"
	"time"
)

// HookCommand is the command of both programs that runs Hook.
const HookCommand = "hook"

// HookTimeout is how long Hook waits for the daemon to acknowledge a report. A report that is
// older when the daemon handles it may have arrived after the change that it announces.
const HookTimeout = 500 * time.Millisecond

// hookDeadline is when Hook exits the process even if something hangs, so that the client's edit
// is not delayed further. Tests raise it.
var hookDeadline = 2 * time.Second

// Hook sends the report that a client writes to the hook's stdin to the daemon, if one runs, and
// waits for the acknowledgement. It hides all failures from the client, whose edit must proceed.
// where returns the daemon's place and the log.
func Hook(in io.Reader, where func() (Place, *slog.Logger, error)) {
	defer func() { _ = recover() }() // a panic exits with status 2, which forbids the edit
	late := time.AfterFunc(hookDeadline, func() { os.Exit(0) })
	defer late.Stop()
	r := ReadReport(in, os.Getenv)
	place, log, err := where()
	if err == nil {
		err = sendReport(place, r)
	}
	if err != nil && log != nil {
		log.Warn("the client's report was not delivered", "event", r.Event, "err", err)
	}
	_, _ = io.Copy(io.Discard, in) // the client may fail if its output is not read
}

// sendReport sends a report to the daemon. It returns nil if there is no daemon.
func sendReport(p Place, r *Report) error {
	conn, err := dial(p)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_, err = greet(conn, Hello{Kind: kindHook, Report: r}, HookTimeout)
	return err
}

// HookPlace returns the place of the daemon for a state folder and a configuration file, and a
// log for failures. It creates nothing.
func HookPlace(stateDir, config string) (Place, *slog.Logger) {
	return placeOf(stateDir, config), slog.New(slog.NewTextHandler(OpenLog(stateDir, ProgramLog), nil)).With("hook", os.Getpid())
}

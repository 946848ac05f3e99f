package daemon

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// HookCommand is the word by which a client's hook starts Hook, in either program.
const HookCommand = "hook"

// HookTimeout is how long a daemon may take to take note of a report. One that is older when
// it is heard came too late for what it reports.
const HookTimeout = 500 * time.Millisecond

// hookDeadline is after how long the client's edit waits no longer, whatever hangs. Tests, whose
// process must not end, set it higher.
var hookDeadline = 2 * time.Second

// Hook tells the daemon, if there is one, what a client says on the hook's stdin, and returns
// when that has taken note. Whatever fails, the client is not told: its edit must go on. where
// finds the daemon's place, and its log.
func Hook(in io.Reader, where func() (Place, *slog.Logger, error)) {
	defer func() { _ = recover() }() // it would end the process with the code that forbids an edit
	late := time.AfterFunc(hookDeadline, func() { os.Exit(0) })
	defer late.Stop()
	r := ReadReport(in, os.Getenv)
	place, log, err := where()
	if err == nil {
		err = sendReport(place, r)
	}
	if err != nil && log != nil {
		log.Warn("what the client reports was not told", "event", r.Event, "err", err)
	}
	_, _ = io.Copy(io.Discard, in) // the client may not like that its words are not read
}

// tell tells the daemon; nil too where there is none.
func sendReport(p Place, r *Report) error {
	conn, err := dial(p)
	if err != nil {
		return nil
	}
	defer conn.Close()
	_, err = greet(conn, hello{Kind: kindHook, Report: r}, HookTimeout)
	return err
}

// HookPlace is where a hook finds the daemon of a configuration file that keeps its state in a
// folder, and the log of what fails. It makes nothing.
func HookPlace(stateDir, config string) (Place, *slog.Logger) {
	log := &logFile{filepath.Join(stateDir, "logs", "mcpschedd.log"), io.Discard}
	return placeOf(stateDir, config), slog.New(slog.NewTextHandler(log, nil)).With("hook", os.Getpid())
}

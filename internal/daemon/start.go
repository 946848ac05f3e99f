package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/gofrs/flock"
)

// Ready is the line that the daemon writes to stdout when it accepts clients.
const Ready = "ready"

// Start describes how to start a daemon. With the zero value none is started.
type Start struct {
	Program string
	Args    []string
	Log     string // file for its stderr
}

// dialEvery is the interval at which a daemon that is starting is dialled.
const dialEvery = 5 * time.Millisecond

// dialOrStart connects to the daemon of a place, and starts it if necessary.
func dialOrStart(ctx context.Context, p Place, s Start, within time.Duration) (conn, error) {
	if conn, err := dial(p); err == nil || s.Program == "" {
		return conn, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	lock := flock.New(p.starting, flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, dialEvery); err != nil {
		return nil, fmt.Errorf("start of the daemon by another client: %w", err)
	}
	defer lock.Close()
	var daemon *exec.Cmd
	ended := make(chan error, 1)
	for failed := error(nil); ; {
		conn, err := dial(p) // another client, or the user, may have started it in the meantime
		if err == nil {
			return conn, nil
		}
		if failed != nil {
			return nil, fmt.Errorf("start of the daemon, whose log is %s: %w", s.Log, failed)
		}
		if daemon == nil {
			if daemon, err = s.run(); err != nil {
				return nil, fmt.Errorf("start of the daemon: %w", err)
			}
			go func() { ended <- cmp.Or(daemon.Wait(), errors.New("it ended")) }() // reaps the daemon if it ends before this process
		}
		select {
		case failed = <-ended:
		case <-time.After(dialEvery):
		case <-ctx.Done():
			_ = daemon.Process.Kill() // it has no clients yet
			failed = ctx.Err()
		}
	}
}

// run starts the daemon.
func (s Start) run() (*exec.Cmd, error) {
	log, err := (&LogFile{Path: s.Log}).Open()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(s.Program, s.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", daemonEnv(os.Environ()), log
	detach(cmd)
	return cmd, cmd.Start()
}

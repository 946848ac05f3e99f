package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// dialEvery is the interval at which a daemon that is starting is dialled.
const dialEvery = 5 * time.Millisecond

// dialOrStart connects to the daemon, and starts it if necessary.
func dialOrStart(ctx context.Context, o Options) (conn, error) {
	if conn, err := dial(o.Place); err == nil || len(o.Start) == 0 {
		return conn, err
	}
	if err := makePrivate(filepath.Dir(o.Place.starting)); err != nil { // it may have been deleted since the last start
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	lock := flock.New(o.Place.starting, flock.SetPermissions(0o600))
	defer lock.Close()
	switch _, err := lock.TryLockContext(ctx, dialEvery); {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("start of the daemon by another client: %w", err)
	case err != nil: // as on a file system without locks
		return nil, fmt.Errorf("lock of %s, for which [server] state_dir can name another folder: %w", o.Place.starting, err)
	}
	var daemon *exec.Cmd
	ended := make(chan error, 1)
	for failed := error(nil); ; {
		conn, err := dial(o.Place) // another client, or the user, may have started it in the meantime
		if err == nil {
			if daemon != nil {
				release(daemon)
			}
			return conn, nil
		}
		if failed != nil {
			kill(daemon) // it does not listen yet
			return nil, fmt.Errorf("start of the daemon, whose log is %s: %w", o.Place.output().Path, failed)
		}
		if daemon == nil {
			if daemon, err = start(o); err != nil {
				return nil, fmt.Errorf("start of the daemon: %w", err)
			}
			go func() { ended <- cmp.Or(daemon.Wait(), errors.New("it ended")) }() // reaps the daemon if it ends before this process
		}
		select {
		case failed = <-ended:
		case <-time.After(dialEvery):
		case <-ctx.Done():
			failed = ctx.Err()
		}
	}
}

// start starts the daemon. Its stderr has a log of its own.
func start(o Options) (*exec.Cmd, error) {
	log, err := o.Place.output().Open()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := detached(o.Start)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", daemonEnv(os.Environ()), log
	return cmd, cmd.Start()
}

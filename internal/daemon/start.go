package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// dialOrStart connects to the daemon of a place, and starts it if necessary.
func dialOrStart(ctx context.Context, p Place, s Start, within time.Duration) (conn, error) {
	if conn, err := dial(p); err == nil || s.Program == "" {
		return conn, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	lock := flock.New(p.starting, flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return nil, fmt.Errorf("start of the daemon by another client: %w", err)
	}
	defer lock.Close()
	if conn, err := dial(p); err == nil { // another client has started it in the meantime
		return conn, nil
	}
	started := s.run(ctx)
	conn, err := dial(p)
	if err != nil {
		return nil, fmt.Errorf("start of the daemon: %w", errors.Join(started, err))
	}
	return conn, nil // also if run failed because the user has just started a daemon
}

// run starts the daemon, and waits until it accepts clients or ctx is done.
func (s Start) run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(s.Log), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.Program, s.Args...)
	cmd.Dir, cmd.Env, cmd.Stderr = "/", daemonEnv(os.Environ()), log
	detach(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	firstLine := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err == nil && line != Ready+"\n" {
			err = fmt.Errorf("its first line is %q", line)
		}
		out.Close()
		firstLine <- err
	}()
	go func() { _, _ = cmd.Process.Wait() }() // reaps the daemon if it ends before this process
	select {
	case err := <-firstLine:
		if err == nil {
			return nil
		}
		_ = cmd.Process.Kill() // in case it wrote another line and still runs
		return errors.Join(errors.New("it ended; its log is "+s.Log), err)
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it has no clients yet
		return fmt.Errorf("it did not accept clients in time: %w", ctx.Err())
	}
}

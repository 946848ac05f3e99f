package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is the time that a process may take to end; the proxy waits for its upstreams for up to
// five seconds.
const grace = 8 * time.Second

// target is one started program and the client that drives it.
type target struct {
	name   string
	cmd    *exec.Cmd
	began  time.Time     // just before it was started
	output *os.File      // this process's end of its stdout
	log    string        // file with its stderr
	done   chan struct{} // closed when it has ended
	client client
	tools  tools // their names in its list
	http   bool  // it does not end with its standard input
}

// start runs a command with a client on its pipes, before the handshake.
func (l *lab) start(ctx context.Context, name string, command []string) (*target, error) {
	log, err := os.CreateTemp(l.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Not StdoutPipe, as Wait would close it while the client still reads.
	output, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		output.Close()
		return nil, err
	}
	t := &target{name: name, cmd: cmd, output: output, log: log.Name(), done: make(chan struct{})}
	t.client = newStdioClient(stdin, output)
	t.began = time.Now()
	if err := cmd.Start(); err != nil {
		output.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		cmd.Wait()
		close(t.done)
	}()
	return t, nil
}

// startStdio starts a command, and makes it ready for calls.
func (l *lab) startStdio(ctx context.Context, name string, command []string) (*target, error) {
	t, err := l.start(ctx, name, command)
	if err != nil {
		return nil, err
	}
	return t.ready()
}

// startHTTP starts a command that listens on addr, and makes it ready for calls at path.
func (l *lab) startHTTP(ctx context.Context, name string, command []string, addr, path string) (*target, error) {
	t, err := l.start(ctx, name, command)
	if err != nil {
		return nil, err
	}
	c := newHTTPClient(addr, path)
	t.client = &attached{httpClient: c, process: t.client}
	t.http = true
	for {
		err := c.connect(1)
		if err == nil {
			return t.ready()
		}
		if time.Since(t.began) > 10*time.Second {
			return nil, t.fail(err)
		}
		select {
		case <-t.done:
			return nil, t.fail(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// attached is the HTTP client of a process. It keeps the standard input of the process open.
type attached struct {
	*httpClient
	process client
}

func (a *attached) close() error { return errors.Join(a.httpClient.close(), a.process.close()) }

func (t *target) ready() (*target, error) {
	var err error
	if t.tools, err = handshake(t.client); err != nil {
		return nil, t.fail(err)
	}
	return t, nil
}

// fail ends t, and returns err with the last lines of t's stderr.
func (t *target) fail(err error) error {
	t.stop()
	log, _ := os.ReadFile(t.log)
	log = bytes.TrimSpace(log[max(0, len(log)-2000):])
	if len(log) == 0 {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return fmt.Errorf("%s: %w; its last words:\n%s", t.name, err, log)
}

// stop ends t: by closing its input, which ends its upstream too, else by a signal, and finally by
// force.
func (t *target) stop() {
	defer t.output.Close()
	t.client.close()
	terminate := func() {
		if t.cmd.Process.Signal(syscall.SIGTERM) != nil {
			t.cmd.Process.Kill() // it has ended already, or the system has no signals
		}
	}
	if t.http {
		terminate()
	}
	for _, end := range []func(){terminate, func() { t.cmd.Process.Kill() }} {
		select {
		case <-t.done:
			return
		case <-time.After(grace):
			end()
		}
	}
	<-t.done
}

func stopAll(targets []*target) {
	for _, t := range targets {
		t.stop()
	}
}

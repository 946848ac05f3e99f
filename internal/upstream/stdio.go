package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	// stopGrace is how long a process may take to end by itself once its input has ended,
	// and again after SIGTERM.
	stopGrace = 500 * time.Millisecond
	// lastGrace takes the place of either grace, and of outputDrain, when the end must not
	// take its time.
	lastGrace = 100 * time.Millisecond
	// outputDrain is how long the output of a process is read that has ended: a grandchild
	// can hold the pipe open for ever.
	outputDrain = 300 * time.Millisecond
	// unreadLimit (bytes) is how much may wait for a process that does not read
	// before nothing more is taken for it: it must not cost the others memory.
	unreadLimit = 64 << 20
)

var (
	// errNotReading refuses more for a process that has left too much unread.
	errNotReading = errors.New("it does not read its input")
	// errStopped ends the calls that a process still had when it was told to end.
	errStopped = errors.New("ended by the proxy")
)

// process is a link to a child process: a message is a line on its stdin or stdout. With
// what it has started it forms a group that ends as one: when the process exits, when it
// closes its output, or when it is stopped.
type process struct {
	c        *conn
	leader   *os.Process
	group    *group
	out      *jsonrpc.Writer // to its stdin
	stdout   *jsonrpc.Pipe
	errs     *os.File
	last     tail // of its stderr
	stopping context.Context
	stop     context.CancelFunc // asks for the end

	exited chan struct{}    // closed when the leader has exited and its group was ended
	state  *os.ProcessState // set before that
	done   chan struct{}    // closed when nothing of it is left
}

// startProcess starts the command of c's upstream as the link of c. An error means that
// c is not told of anything.
func startProcess(c *conn) error {
	leader, stdin, stdout, stderr, err := c.in.up.spec.Command.start()
	if err != nil {
		return err
	}
	c.in.up.o.Guard.add(leader.Pid) // first: the proxy may be killed at any time
	p := &process{
		c: c, leader: leader, group: newGroup(leader),
		out:    jsonrpc.NewWriter(jsonrpc.NewPipe(stdin)),
		stdout: jsonrpc.NewPipe(stdout), errs: stderr,
		exited: make(chan struct{}), done: make(chan struct{}),
	}
	p.stopping, p.stop = context.WithCancel(context.Background())
	if to := c.in.up.o.Stderr; to != nil {
		p.last.each = func(line []byte) {
			_, _ = fmt.Fprintf(to, "%s [%d] %s\n", time.Now().UTC().Format(time.RFC3339), leader.Pid, masked(line, true, c.in.up.mask))
		}
	}
	c.link = p
	go p.run()
	return nil
}

// send writes m to the process, or queues what it does not take at once.
func (p *process) send(_ context.Context, m outgoing) error {
	if unread := p.out.Queued(); unread > unreadLimit {
		return fmt.Errorf("%w: %d bytes wait for it", errNotReading, unread)
	}
	err := p.out.Send(m.line)
	if err == nil && m.taken != nil {
		m.taken()
	}
	return err
}

// close ends the process, in order, and returns when nothing of it is left. It
// must not be called from the reader.
func (p *process) close() {
	p.stop()
	<-p.done
}

// run sees the process through to its end.
func (p *process) run() {
	defer close(p.done)
	var work sync.WaitGroup
	silent := make(chan struct{})
	work.Go(p.reap)
	work.Go(func() { _, _ = io.Copy(&p.last, p.errs) }) // what ends it ends the process, too
	work.Go(func() {
		p.read()
		close(silent)
	})

	var why error // nil: what its exit says
	select {
	case <-p.exited:
	case <-silent:
		why = errors.New("closed its output")
	case <-p.out.Ended(): // no call would reach it any more
		why = errors.New("closed its input")
	case <-p.stopping.Done():
		why = errStopped
	}
	if !p.end() && why != errStopped {
		why = nil
	}
	for _, pipe := range []*os.File{p.stdout.File, p.errs} { // without deadlines, on Windows, the end of the group closes them
		_ = pipe.SetReadDeadline(time.Now().Add(p.hurried(outputDrain)))
		defer pipe.Close()
	}
	work.Wait()
	p.group.close()
	if why == nil {
		why = ended(p.state)
	}
	p.c.closed(why)
}

// end brings the process to its end if it has not ended yet: first its input
// ends, then it is asked, then it is forced. It says whether the first was not
// enough.
func (p *process) end() (forced bool) {
	p.out.Close()
	if p.exits() {
		return false
	}
	p.group.terminate()
	if !p.exits() {
		p.group.kill()
	}
	<-p.exited
	return true
}

// exits waits until the process has exited, for at most its grace.
func (p *process) exits() bool {
	grace := cmp.Or(p.c.in.up.spec.Command.grace, stopGrace)
	select {
	case <-p.exited:
		return true
	case <-time.After(grace):
		return false
	case <-p.c.in.up.o.StopFast:
	}
	select {
	case <-p.exited:
		return true
	case <-time.After(min(grace, lastGrace)):
		return false
	}
}

// hurried is a wait at the end of a process, shorter where that must not take its time.
func (p *process) hurried(wait time.Duration) time.Duration {
	select {
	case <-p.c.in.up.o.StopFast:
		return min(wait, lastGrace)
	default:
		return wait
	}
}

// reap waits for the process to exit and ends what it leaves behind. Its id, which is its
// group's, is free for others by then, but is not used again so soon.
func (p *process) reap() {
	p.state, _ = p.leader.Wait()
	p.group.kill()
	p.c.in.up.o.Guard.remove(p.leader.Pid)
	close(p.exited)
}

// ended says how a process ended by itself.
func ended(state *os.ProcessState) error {
	if state == nil {
		return errors.New("ended in an unknown way")
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Errorf("killed by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	return fmt.Errorf("exited with status %d", state.ExitCode())
}

// read hands every line of stdout to the connection, until it ends.
func (p *process) read() {
	lines := jsonrpc.NewReader(p.stdout, p.c.in.up.spec.MaxMessage)
	for {
		line, err := lines.Borrow()
		if long, ok := errors.AsType[*jsonrpc.LineTooLong](err); ok {
			p.c.unreadable(answers(jsonrpc.Message{ID: long.ID()}, long.Head, false), long.Head, err)
			continue
		}
		if err != nil {
			return
		}
		p.c.line(line)
	}
}

// line takes one line from the process. The messages of a batch share its memory, so that
// it is not given back.
func (c *conn) line(from *jsonrpc.Buffer) {
	batch := bytes.HasPrefix(bytes.TrimLeft(from.Line, " \t\r"), []byte("["))
	for m, err := range c.messages(from.Line) {
		if err != nil {
			c.unreadable(answers(m, from.Line, false), from.Line, err)
			continue
		}
		if !batch {
			m.Buffer = from // of a message that was repaired, too: it lies elsewhere, but is read no more
		}
		c.message(m, 0)
	}
}

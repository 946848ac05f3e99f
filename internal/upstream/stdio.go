package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/secret"
)

const (
	// stopGrace is Command.StopGrace where it is not set.
	stopGrace = 500 * time.Millisecond
	// lastGrace takes the place of either grace, and of lastWords, when the end must not
	// take its time.
	lastGrace = 100 * time.Millisecond
	// lastWords is how long the output of a process is read that has ended: a grandchild
	// can hold the pipe open for ever.
	lastWords = 300 * time.Millisecond
	// unreadLimit (bytes) is how much may wait for a process that does not read
	// before nothing more is taken for it: it must not cost the others memory.
	unreadLimit = 64 << 20
)

// errNotReading refuses more for a process that has left too much unread.
var errNotReading = errors.New("it does not read its input")

// errStopped ends the calls that a process still had when it was told to end.
var errStopped = errors.New("ended by the proxy")

// process is a link to a child process: a message is a line on its stdin or
// stdout. Its run method waits for everything that it starts.
type process struct {
	family   *family
	c        *conn
	out      *jsonrpc.Writer // to its stdin
	stdout   *jsonrpc.Pipe
	errs     *jsonrpc.Pipe
	last     tail // of its stderr
	grace    time.Duration
	stopFast <-chan struct{} // Options.StopFast

	stopping chan struct{} // closed by stop
	stop     func()        // asks for the end; may be called often
	silent   chan struct{} // closed when stdout has ended
	done     chan struct{} // closed when nothing of it is left
}

// startProcess starts the command of c's upstream in a group of its own, as the link of c.
// An error means that c is not told of anything.
func startProcess(c *conn) error {
	command, o := c.in.up.spec.Command, c.in.up.o
	leader, stdin, stdout, stderr, err := command.start()
	if err != nil {
		return err
	}
	family := newFamily(leader, o.Guard) // first: the proxy may be killed at any time
	enlarge(stdout)
	p := &process{
		c: c, family: family,
		out:    jsonrpc.NewWriter(jsonrpc.NewPipe(stdin)),
		stdout: jsonrpc.NewPipe(stdout), errs: jsonrpc.NewPipe(stderr),
		grace: command.StopGrace, stopFast: o.StopFast,
		stopping: make(chan struct{}), silent: make(chan struct{}), done: make(chan struct{}),
	}
	p.stop = sync.OnceFunc(func() { close(p.stopping) })
	if p.grace <= 0 {
		p.grace = stopGrace
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

// stderr returns the last lines that the process wrote there, as mask leaves them.
func (p *process) stderr(mask *secret.Masker) []string { return p.last.list(mask) }

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
	work.Go(p.family.reap)
	work.Go(func() { p.last.readFrom(p.errs) })
	work.Go(func() {
		p.read()
		close(p.silent)
	})

	var err error
	end := "closed its output"
	select {
	case <-p.family.exited:
	case <-p.silent:
	case <-p.out.Ended(): // no call would reach it any more
		end = "closed its input"
	case <-p.stopping:
		err = errStopped
	}
	forced := p.end()
	words := lastWords
	select {
	case <-p.stopFast:
		words = lastGrace
	default:
	}
	for _, pipe := range []*jsonrpc.Pipe{p.stdout, p.errs} { // without deadlines, on Windows, the end of the group closes them
		_ = pipe.SetReadDeadline(time.Now().Add(words))
		defer pipe.Close()
	}
	work.Wait()
	p.family.group.close()

	switch {
	case err != nil:
	case forced:
		err = errors.New(end)
	default:
		err = ended(p.family.state)
	}
	p.c.closed(err)
}

// end brings the process to its end if it has not ended yet: first its input
// ends, then it is asked, then it is forced. It says whether the first was not
// enough.
func (p *process) end() (forced bool) {
	p.out.Close()
	if p.exits() {
		return false
	}
	p.family.signal((*group).terminate)
	if !p.exits() {
		p.family.signal((*group).kill)
	}
	<-p.family.exited
	return true
}

// exits waits until the process has exited, for at most its grace.
func (p *process) exits() bool {
	late := time.NewTimer(p.grace)
	defer late.Stop()
	for stopFast := p.stopFast; ; stopFast = nil {
		select {
		case <-p.family.exited:
			return true
		case <-late.C:
			return false
		case <-stopFast:
			late.Reset(min(p.grace, lastGrace))
		}
	}
}

// family is a process and what it has started. They form a group that ends as one:
// when the process exits, when it closes its output, or when it is stopped.
type family struct {
	leader *os.Process
	group  *group
	guard  *Guard
	exited chan struct{}    // closed when the leader is reaped
	state  *os.ProcessState // set before that

	mu   sync.Mutex
	over bool // the group must not be signalled any more: its id may belong to others
}

func newFamily(leader *os.Process, guard *Guard) *family {
	guard.add(leader.Pid)
	return &family{leader: leader, group: newGroup(leader), guard: guard, exited: make(chan struct{})}
}

func (f *family) signal(send func(*group)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		send(f.group)
	}
}

// reap waits for the process to exit and ends what it leaves behind.
func (f *family) reap() {
	f.state = reap(f.leader, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.group.kill()
		f.guard.remove(f.leader.Pid)
		f.over = true
	})
	close(f.exited)
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

package upstream

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
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
	if m.fence != nil {
		if err := m.fence(); err != nil {
			return &unsentError{err}
		}
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

// Command is how a server process is started.
type Command struct {
	Path string   // a name to find in the PATH of Env, or a path; a relative one starts at Dir
	Args []string // without the name of the command
	Dir  string   // "": the proxy's own
	Env  []string // complete: nothing is inherited

	grace time.Duration // of tests, in place of stopGrace
}

// start starts the command in a process group of its own, and returns our ends of its
// pipes.
func (c Command) start() (p *os.Process, stdin, stdout, stderr *os.File, err error) {
	path, err := c.resolve()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir,
		Env:         append([]string{}, c.Env...), // nil would inherit ours
		SysProcAttr: groupAttr(),
	}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	errs, errsErr := cmd.StderrPipe()
	if err := errors.Join(inErr, outErr, errsErr); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, nil, c.startError(path, err)
	}
	return cmd.Process, in.(*os.File), out.(*os.File), errs.(*os.File), nil
}

// resolve finds the file to execute as exec.LookPath does, but in the PATH that the
// process gets. It skips relative entries of PATH, as exec.LookPath does.
func (c Command) resolve() (string, error) {
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		return "", fmt.Errorf("working directory %q: %w", c.Dir, cause(err, "not a directory"))
	}
	if c.Path == "" {
		return "", errors.New("no command")
	}
	if filepath.Base(c.Path) != c.Path {
		return c.resolvePath()
	}
	for _, dir := range filepath.SplitList(c.searchPath()) {
		if path, err := exec.LookPath(filepath.Join(dir, c.Path)); err == nil && filepath.IsAbs(dir) {
			return path, nil
		}
	}
	return "", fmt.Errorf("command %q not found in PATH", c.Path)
}

// resolvePath is resolve for a command that is a path.
func (c Command) resolvePath() (string, error) {
	path := c.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = exec.LookPath(path)
	}
	if err != nil {
		return "", fmt.Errorf("command %q: %w", c.Path, cause(err, ""))
	}
	return path, nil
}

// searchPath returns the PATH in Env; of several the last counts, as for exec.
func (c Command) searchPath() (path string) {
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	return path
}

// startError says why a command that was found could not be started. The system
// reports "no such file" for a script if its interpreter is missing.
func (c Command) startError(path string, err error) error {
	if _, statErr := os.Stat(path); statErr == nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("command %q: what is to run %s (its #! line or its loader) does not exist", c.Path, path)
	}
	return fmt.Errorf("command %q: %w", c.Path, err)
}

// cause is err without the system call and the path, which the message names already;
// what it says itself if it is nil.
func cause(err error, otherwise string) error {
	if err == nil {
		return errors.New(otherwise)
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}

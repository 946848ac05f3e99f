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
	"time"

	"mcpschedd/internal/jsonrpc"
)

const (
	// stopGrace is the time a process has to exit after its stdin was closed, and again after
	// SIGTERM.
	stopGrace = 500 * time.Millisecond
	// fastGrace replaces stopGrace once StopFast is closed.
	fastGrace = 100 * time.Millisecond
	// outputDrain is how long the output of a process is read after its exit: a grandchild may
	// hold the pipe open for ever.
	outputDrain = 300 * time.Millisecond
	// unreadLimit (bytes) limits the memory for messages to a process that does not read them.
	unreadLimit = 64 << 20
)

// errStopped fails the calls of a connection that the proxy ends. Those of a session that has ended were
// cancelled before, so the configuration was reloaded.
var errStopped = errors.New("its configuration was changed while the call ran")

// process is a link to a child process: each message is a line on its stdin or stdout. Its
// process group is killed when the process exits, closes its output or stdin, or is stopped.
type process struct {
	c        *conn
	leader   *os.Process
	group    *group
	out      *jsonrpc.Writer // to stdin
	stdout   *jsonrpc.Pipe
	stderr   *os.File
	tail     tail // last lines of stderr
	stopping context.Context
	stop     context.CancelFunc // cancels stopping

	exited chan struct{}    // closed when the leader has exited and its group was killed
	state  *os.ProcessState // set before exited is closed
}

// startProcess starts the upstream's command as the link of c. If it returns an error, it does
// not call c.
func startProcess(c *conn) error {
	c.in.up.o.Guard.start()
	leader, stdin, stdout, stderr, err := c.in.up.spec.Command.start()
	if err != nil {
		return err
	}
	c.in.up.o.Guard.add(leader.Pid) // at once, as the proxy may be killed at any time
	p := &process{
		c: c, leader: leader, group: newGroup(leader),
		out:    jsonrpc.NewWriter(jsonrpc.NewPipe(stdin)),
		stdout: jsonrpc.NewPipe(stdout), stderr: stderr,
		exited: make(chan struct{}),
	}
	p.stopping, p.stop = context.WithCancel(context.Background())
	p.tail.mask, p.tail.to, p.tail.pid = c.in.up.mask, c.in.up.o.Stderr, leader.Pid
	c.link = p
	go p.run()
	return nil
}

// send writes m to the process, or queues what the pipe does not accept at once.
func (p *process) send(_ context.Context, m outgoing) error {
	if unread := p.out.Queued(); unread > unreadLimit {
		return &unsentError{fmt.Errorf("it does not read its input: %d bytes are queued", unread)}
	}
	if m.fence != nil {
		if err := m.fence(); err != nil {
			return &unsentError{err}
		}
	}
	err := p.out.Send(m.line)
	if err == nil && m.done != nil {
		m.done()
	}
	return err
}

// close stops the process.
func (p *process) close() { p.stop() }

// run waits for the end of the process and cleans up.
func (p *process) run() {
	var work sync.WaitGroup
	outputClosed := make(chan struct{})
	work.Go(p.reap)
	work.Go(func() { _, _ = io.Copy(&p.tail, p.stderr) }) // an error means that the process ends
	work.Go(func() {
		p.read()
		close(outputClosed)
	})

	var why error // nil means its exit status
	select {
	case <-p.exited:
	case <-outputClosed:
		why = errors.New("closed its output")
	case <-p.out.Ended(): // no call could reach it
		why = errors.New("closed its input")
	case <-p.stopping.Done():
		why = errStopped
	}
	if !p.shutdown() && why != errStopped {
		why = nil
	}
	for _, pipe := range []*os.File{p.stdout.File, p.stderr} { // Windows has no deadlines for pipes; killing the group closes them
		_ = pipe.SetReadDeadline(time.Now().Add(outputDrain))
	}
	work.Wait()
	p.stdout.Close()
	p.stderr.Close()
	p.group.close()
	if why == nil {
		why = errors.New(p.state.String())
		if p.c.invalid.Load() > 0 && p.c.revision() == "" { // such as a usage message
			why = fmt.Errorf("%w, after it wrote to stdout: %s", why, p.c.in.state.Load().garbled)
		}
	}
	p.c.closed(why)
}

// shutdown closes stdin, then terminates the group, then kills it, until the process has exited.
// It reports whether closing stdin was not enough.
func (p *process) shutdown() (forced bool) {
	p.out.Close()
	if p.waitExit() {
		return false
	}
	p.group.terminate()
	if !p.waitExit() {
		p.group.kill()
	}
	<-p.exited
	return true
}

// waitExit waits for the process to exit, for at most the grace period, and reports whether it
// has.
func (p *process) waitExit() bool {
	fast := p.c.in.up.o.StopFast
	for wait := cmp.Or(p.c.in.up.spec.Command.grace, stopGrace); ; wait = min(wait, fastGrace) {
		select {
		case <-p.exited:
			return true
		case <-time.After(wait):
			return false
		case <-fast:
			fast = nil
		}
	}
}

// reap waits for the process to exit and kills the rest of its group. The group id is free by
// then, but systems do not reuse ids so soon.
func (p *process) reap() {
	p.state, _ = p.leader.Wait()
	p.group.kill()
	p.c.in.up.o.Guard.remove(p.leader.Pid)
	close(p.exited)
}

// read passes each line of stdout to the connection until stdout ends.
func (p *process) read() {
	lines := jsonrpc.NewReader(p.stdout, p.c.in.up.spec.MaxMessage)
	for {
		line, err := lines.Borrow()
		if long, ok := errors.AsType[*jsonrpc.MessageTooLong](err); ok {
			p.c.unreadable(long.Message(), 0, err)
			continue
		}
		if err != nil {
			return
		}
		_ = p.c.receive(bytes.TrimSpace(line.Line), line, 0, nil) // which has logged the error
	}
}

// Command is the command line of a server process.
type Command struct {
	Path string   // a name in the PATH of Env, or a path, relative to Dir
	Args []string // without the command name
	Dir  string   // empty means that of the proxy
	Env  []string // complete; nothing is inherited

	grace time.Duration // set by tests instead of stopGrace
}

// start starts the command in a new process group, and returns our ends of its pipes.
func (c Command) start() (p *os.Process, stdin, stdout, stderr *os.File, err error) {
	path, err := c.resolve()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir,
		Env:         append([]string{}, c.Env...), // nil would inherit our environment
		SysProcAttr: groupAttr(),
	}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	errs, errsErr := cmd.StderrPipe()
	if err := errors.Join(inErr, outErr, errsErr); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) { // of a script; the command itself was found
			err = fmt.Errorf("the interpreter or loader of %s does not exist", path)
		}
		return nil, nil, nil, nil, fmt.Errorf("command %q: %w", c.Path, err)
	}
	return cmd.Process, in.(*os.File), out.(*os.File), errs.(*os.File), nil
}

// notInPathError says that a command is in no directory of path.
type notInPathError struct{ command, path string }

func (e notInPathError) Error() string { return fmt.Sprintf("command %q not found in PATH", e.command) }

// resolve finds the executable as exec.LookPath does, but in the PATH of Env. Like exec.LookPath
// it skips relative entries of PATH.
func (c Command) resolve() (path string, err error) {
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		return "", fmt.Errorf("working directory %q is not a directory", c.Dir)
	}
	switch {
	case c.Path == "":
		return "", errors.New("no command")
	case filepath.IsAbs(c.Path):
		path = c.Path
	case filepath.Base(c.Path) != c.Path:
		path, err = filepath.Abs(filepath.Join(c.Dir, c.Path))
	default:
		searched := c.searchPath()
		for _, dir := range filepath.SplitList(searched) {
			if path, err := exec.LookPath(filepath.Join(dir, c.Path)); err == nil && filepath.IsAbs(dir) {
				return path, nil
			}
		}
		return "", notInPathError{c.Path, searched}
	}
	if err == nil {
		program, _, several := strings.Cut(path, " ")
		path, err = exec.LookPath(path)
		if _, other := exec.LookPath(program); err != nil && several && other == nil {
			err = fmt.Errorf("want %s alone, with its arguments in args", program)
		}
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(err) {
		err = cause // without the system call and the path
	}
	if err != nil {
		return "", fmt.Errorf("command %q: %w", c.Path, err)
	}
	return path, nil
}

// searchPath returns the last PATH in Env, as exec does.
func (c Command) searchPath() (path string) {
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	return path
}

package daemon

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// LogFile is a log that several processes append to. It is opened anew for each line, as lines are
// few. A line that cannot be written is lost, because a log must not stop the process. If two processes
// rename it at the same moment, the lines of the larger file are lost.
type LogFile struct {
	Path string
	Max  int64 // size (bytes) above which Open renames it to Path.1, replacing the previous one; 0 means never

	mu sync.Mutex // held while writing a line, so that this process renames the file once
}

// Names of logs in a state folder.
const (
	ProgramLog = "mcpschedd" // the program's own log
	OutputLog  = "daemon"    // other output of daemons that clients started
)

// OpenLog returns the log of that name in a state folder.
func OpenLog(stateDir, name string) *LogFile {
	return &LogFile{Path: filepath.Join(stateDir, "logs", name+".log"), Max: 4 << 20}
}

// Write writes one line. It never fails.
func (l *LogFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if file, err := l.Open(); err == nil {
		_, _ = file.Write(line)
		file.Close()
	}
	return len(line), nil
}

// Open opens the file to append to it, and creates it and its folder if they are missing. A file that is
// too large is renamed first.
func (l *LogFile) Open() (*os.File, error) {
	if info, err := os.Stat(l.Path); err == nil && l.Max > 0 && info.Size() > l.Max {
		_ = os.Rename(l.Path, l.Path+".1") // on failure the file just keeps growing
	}
	if err := os.MkdirAll(filepath.Dir(l.Path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(l.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// stderrWait is how long a line to stderr may take.
const stderrWait = 100 * time.Millisecond

// stderr writes lines that a client need not read. While it does not, lines are lost, as they must not stop
// the process; a [LogFile] has them too.
type stderr struct {
	io.Writer
	busy chan struct{} // holds an element while a line is being written
}

// outlivePipes makes writing to a broken pipe fail, instead of ending this process if it is stderr: see
// [signal.Notify]. [signal.Ignore] would change that for the servers too, which inherit it.
var outlivePipes = sync.OnceFunc(func() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) })

// Stderr returns a writer of lines to this process's stderr, which the client may also close.
func Stderr(w io.Writer) io.Writer {
	outlivePipes()
	return stderr{w, make(chan struct{}, 1)}
}

// Write writes one line. It never fails.
func (s stderr) Write(line []byte) (int, error) {
	select {
	case s.busy <- struct{}{}:
	default:
		return len(line), nil
	}
	own, written := bytes.Clone(line), make(chan struct{})
	go func() {
		_, _ = s.Writer.Write(own)
		<-s.busy
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(stderrWait):
	}
	return len(line), nil
}

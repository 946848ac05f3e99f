package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
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
	open := func() (*os.File, error) { return os.OpenFile(l.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) }
	file, err := open()
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := os.MkdirAll(filepath.Dir(l.Path), 0o700); err != nil {
		return nil, err
	}
	return open()
}

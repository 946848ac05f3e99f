package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"mcpschedd/internal/state"
)

// maxLogFile (bytes) is the size at which a log in the state directory is renamed to NAME.log.1,
// replacing the previous one.
const maxLogFile = 4 << 20

// proxyLog is the proxy's own log, in the state directory.
const proxyLog = "logs/mcpschedd.log"

// daemonOutput is other output of daemons that clients started.
const daemonOutput = "logs/daemon.log"

// upstreamLog is the stderr of an upstream's processes, in the state directory.
func upstreamLog(name string) string { return "logs/upstream-" + name + ".log" }

// logFile is a log that several processes append to. It is opened with the first line. A line that
// cannot be written is lost, because a log must not stop the process.
type logFile struct {
	path string
	max  int64 // size (bytes) at which it is renamed to path.1; 0 means never

	mu   sync.Mutex // guards the fields below; held while writing a line
	file *os.File
	size int64
}

func newLogFile(dir state.Dir, name string) *logFile {
	return &logFile{path: dir.Path(name), max: maxLogFile}
}

// Write writes one line.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.max > 0 && l.size > l.max {
		_ = l.openLocked() // on failure the line is lost
	}
	if l.file != nil {
		n, _ := l.file.Write(line)
		l.size += int64(n)
	}
	return len(line), nil
}

// openLocked opens the file, and renames it first if it is too large.
func (l *logFile) openLocked() error {
	l.closeLocked()
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(l.path); err == nil && l.max > 0 && info.Size() > l.max {
		_ = os.Rename(l.path, l.path+".1") // on failure the file just keeps growing
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	l.file = file
	l.size, _ = file.Seek(0, io.SeekEnd) // fails for a device, which has no size
	return nil
}

func (l *logFile) closeLocked() {
	if l.file != nil {
		l.file.Close()
	}
	l.file = nil
}

// Close closes the file. A later line reopens it.
func (l *logFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked()
}

func logsCommand() *cobra.Command {
	var file string
	var lines int
	c := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the end of the proxy's log, or of a server's stderr",
		Long: `Prints the last lines of the proxy's log, or of what the server NAME wrote to stderr. Both
are kept in the state directory, in logs.`,
		Example: `  mcpschedd logs
  mcpschedd logs github -n 20`,
		Args:              takes(0, 1, ""),
		ValidArgsFunction: completeUpstreams(&file),
		RunE: func(c *cobra.Command, words []string) error {
			upstream := ""
			if len(words) > 0 {
				upstream = words[0]
			}
			return printLog(c.OutOrStdout(), c.ErrOrStderr(), file, upstream, lines)
		},
	}
	configFlag(c, &file)
	c.Flags().IntVarP(&lines, "lines", "n", 100, "number of `LINES`")
	return c
}

// printLog prints the end of an upstream's log, or of the proxy's if upstream is "", continuing into the
// renamed one if needed.
func printLog(stdout, stderr io.Writer, file, upstream string, lines int) error {
	c, _, err := loadServed(file)
	if err != nil {
		return err
	}
	dir, err := stateDir(c)
	if err != nil {
		return err
	}
	path := dir.Path(upstreamLog(upstream))
	if upstream == "" {
		path = cmp.Or(c.Log.File, dir.Path(proxyLog))
		if info, err := os.Stat(dir.Path(daemonOutput)); err == nil && info.Size() > 0 {
			say(stderr, "note: other output of daemons, such as the cause of a crash, is in %s", dir.Path(daemonOutput))
		}
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, unknown := upstreamNamed(c, upstream); upstream != "" && unknown != nil {
			return unknown
		}
		return hinted{fmt.Errorf("no log at %s", path), "nothing has been logged there yet"}
	}
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(path + ".1"); err == nil && bytes.Count(text, []byte("\n")) < lines {
		text = append(before, text...)
	}
	all := slices.Collect(bytes.Lines(text))
	_, err = stdout.Write(bytes.Join(all[max(0, len(all)-max(0, lines)):], nil))
	return err
}

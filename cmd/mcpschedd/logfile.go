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
	"strings"
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
	keep bool // never rotate: it is the operator's file

	mu   sync.Mutex // guards the fields below; held while writing a line
	file *os.File
	size int64
}

func newLogFile(dir state.Dir, name string) *logFile { return &logFile{path: dir.Path(name)} }

// Write writes one line.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLogFile && !l.keep && l.file != nil {
		l.file.Close()
		l.file = nil
	}
	if l.file == nil && l.openLocked() != nil {
		return len(line), nil
	}
	n, _ := l.file.Write(line)
	l.size += int64(n)
	return len(line), nil
}

// open opens the file, which otherwise happens with the first line.
func (l *logFile) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked()
}

// openLocked opens the file, and rotates it first if it is too large.
func (l *logFile) openLocked() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(l.path); err == nil && info.Size() > maxLogFile && !l.keep {
		_ = os.Rename(l.path, l.path+".1") // on failure the file just keeps growing
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Close closes the file. A later line reopens it.
func (l *logFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	l.file = nil
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

// printLog prints the end of an upstream's log, or of the proxy's if upstream is "".
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
	if _, err := upstreamNamed(c, upstream); upstream != "" && err != nil && len(logNames(filepath.Dir(path))) == 0 {
		return err
	}
	if upstream == "" {
		path = cmp.Or(c.Log.File, dir.Path(proxyLog))
		if info, err := os.Stat(dir.Path(daemonOutput)); err == nil && info.Size() > 0 {
			say(stderr, "note: other output of daemons, such as the cause of a crash, is in %s", dir.Path(daemonOutput))
		}
	}
	return printEnd(stdout, path, lines)
}

// printEnd prints the last lines of a log, continuing into the rotated one if needed.
func printEnd(w io.Writer, path string, lines int) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		hint := "nothing has been logged there yet"
		if names := logNames(filepath.Dir(path)); len(names) > 0 {
			hint = "there are: " + strings.Join(names, ", ")
		}
		return hinted{fmt.Errorf("no log at %s", path), hint}
	}
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(path + ".1"); err == nil && bytes.Count(text, []byte("\n")) < lines {
		text = append(before, text...)
	}
	all := slices.Collect(bytes.Lines(text))
	for _, line := range all[max(0, len(all)-max(0, lines)):] {
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// logNames returns the commands that print the logs in a directory.
func logNames(dir string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // fails only for a malformed pattern
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".log")
		if upstream, ok := strings.CutPrefix(name, "upstream-"); ok {
			names = append(names, "mcpschedd logs "+upstream)
		} else if filepath.Base(file) != filepath.Base(daemonOutput) {
			names = append(names, "mcpschedd logs")
		}
	}
	return names
}

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

// maxLogFile (bytes) is when a log in the state folder becomes NAME.log.1, whose predecessor
// goes.
const maxLogFile = 4 << 20

// proxyLog is the log of the proxy itself, in the state folder.
const proxyLog = "logs/mcpschedd.log"

// daemonOutput is what daemons that clients have started write otherwise.
const daemonOutput = "logs/daemon.log"

// upstreamLog is what an upstream's processes write to stderr, in the state folder.
func upstreamLog(name string) string { return "logs/upstream-" + name + ".log" }

// logFile is a log that several processes append to. It is opened with the first line; what
// cannot be written is lost, for a log must end nothing.
type logFile struct {
	path  string
	grows bool // it is the operator's, and stays one file

	mu   sync.Mutex // guards what follows; held while a line is written
	file *os.File
	size int64
}

func newLogFile(dir state.Dir, name string) *logFile { return &logFile{path: dir.Path(name)} }

// Write takes one line.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLogFile && !l.grows && l.file != nil {
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

// open opens the file, which else is done with the first line.
func (l *logFile) open() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked()
}

// openLocked opens the file, or a new one where it has grown too long.
func (l *logFile) openLocked() error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(l.path); err == nil && info.Size() > maxLogFile && !l.grows {
		_ = os.Rename(l.path, l.path+".1") // else it only grows on
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

// Close closes the file; a later line opens it again.
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

// printLog prints the end of an upstream's log, or with no name of the proxy's.
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

// printEnd prints the last lines of a log, and of the one before it where that is needed.
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

// logNames are the logs in a folder, as mcpschedd logs is asked for them.
func logNames(dir string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is well-formed
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

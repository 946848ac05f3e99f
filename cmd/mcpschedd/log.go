package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"mcpschedd/internal/config"
)

// logOutput is where the log goes and how much of it, which a reload may change.
type logOutput struct {
	level  slog.LevelVar
	own    *logFile // beside stderr
	stderr io.Writer

	mu   sync.Mutex // guards what follows; held while a record is written
	path string     // of file
	file *os.File   // nil: stderr and own
}

// openLog begins the log: at the file that l names, or else at stderr and in the state folder,
// for few clients show the former. Its output is to be closed.
func openLog(l config.Log, own *logFile, stderr io.Writer) (*slog.Logger, *logOutput, error) {
	o := &logOutput{own: own, stderr: stderr}
	if err := o.apply(l); err != nil {
		return nil, nil, hinted{misused{err}, "[log] file"}
	}
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: &o.level})), o, nil
}

// apply makes the next record go where l says. After an error nothing has changed.
func (o *logOutput) apply(l config.Log) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.File != o.path {
		file, err := openLogFile(l.File)
		if err != nil {
			return err
		}
		if o.file != nil {
			o.file.Close()
		}
		o.path, o.file = l.File, file
	}
	o.level.Set(level)
	return nil
}

// openLogFile returns the file at path, nil for "".
func openLogFile(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// Write takes one record.
func (o *logOutput) Write(record []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		return o.file.Write(record)
	}
	_, _ = o.own.Write(record) // it takes all
	return o.stderr.Write(record)
}

// Close closes the files; what is logged later goes to stderr.
func (o *logOutput) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		o.file.Close()
	}
	o.path, o.file = "", nil
	o.own.Close()
}

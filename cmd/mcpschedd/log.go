package main

import (
	"io"
	"log/slog"
	"sync/atomic"

	"mcpschedd/internal/config"
)

// logOutput writes the log to the configured file, or else to stderr and to a file in the state
// directory, as few clients show stderr. A reload may change the file and the level.
type logOutput struct {
	level  slog.LevelVar
	own    *logFile // in the state directory
	stderr io.Writer
	file   atomic.Pointer[logFile] // configured file; nil means stderr and own
}

// openLog opens the log. The caller closes the output.
func openLog(l config.Log, own *logFile, stderr io.Writer) (*slog.Logger, *logOutput, error) {
	o := &logOutput{own: own, stderr: stderr}
	if err := o.apply(l); err != nil {
		return nil, nil, hinted{misused{err}, "[log] file"}
	}
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: &o.level})), o, nil
}

// apply changes the file and the level. On error it changes nothing.
func (o *logOutput) apply(l config.Log) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return err
	}
	var file *logFile
	if l.File != "" {
		file = &logFile{path: l.File}
		if err := file.openLocked(); err != nil { // no other goroutine has it yet
			return err
		}
	}
	o.level.Set(level)
	if old := o.file.Swap(file); old != nil {
		old.Close() // a concurrent Write may reopen it
	}
	return nil
}

// Write writes one record.
func (o *logOutput) Write(record []byte) (int, error) {
	if file := o.file.Load(); file != nil {
		return file.Write(record)
	}
	_, _ = o.own.Write(record) // never fails
	return o.stderr.Write(record)
}

// Close closes the files. Later records go to stderr.
func (o *logOutput) Close() {
	if file := o.file.Swap(nil); file != nil {
		file.Close()
	}
	o.own.Close()
}

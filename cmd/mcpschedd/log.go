package main

import (
	"io"
	"log/slog"
	"sync/atomic"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
)

// logOutput writes the log to the configured file, or else to stderr and to a file in the state
// directory, as few clients show stderr. A reload may change the file and the level.
type logOutput struct {
	level  slog.LevelVar
	own    *daemon.LogFile // in the state directory
	stderr io.Writer
	file   atomic.Pointer[daemon.LogFile] // configured file; nil means stderr and own
}

// openLog returns the log that the configuration asks for.
func openLog(l config.Log, own *daemon.LogFile, stderr io.Writer) (*slog.Logger, *logOutput, error) {
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
	var file *daemon.LogFile
	if l.File != "" {
		file = &daemon.LogFile{Path: l.File}
		opened, err := file.Open() // so that a mistake is reported here
		if err != nil {
			return err
		}
		opened.Close()
	}
	o.level.Set(level)
	o.file.Store(file)
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

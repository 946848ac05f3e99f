package main

import (
	"io"
	"log/slog"
	"sync/atomic"

	"mcpschedd/internal/config"
)

// logOutput is where the log goes and how much of it, which a reload may change: to the file
// that the configuration names, or else to stderr and into the state folder, for few clients
// show the former.
type logOutput struct {
	level  slog.LevelVar
	own    *logFile // beside stderr
	stderr io.Writer
	file   atomic.Pointer[logFile] // nil: stderr and own
}

// openLog begins the log. Its output is to be closed.
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
	var file *logFile
	if l.File != "" {
		file = &logFile{path: l.File, grows: true}
		if err := file.open(); err != nil {
			return err
		}
	}
	o.turn(file)
	o.level.Set(level)
	return nil
}

// turn makes the next record go to a file, or to stderr for nil.
func (o *logOutput) turn(file *logFile) {
	if old := o.file.Swap(file); old != nil {
		old.Close() // a record that is being written just now may open it once more
	}
}

// Write takes one record.
func (o *logOutput) Write(record []byte) (int, error) {
	if file := o.file.Load(); file != nil {
		return file.Write(record)
	}
	_, _ = o.own.Write(record) // it takes all
	return o.stderr.Write(record)
}

// Close closes the files; what is logged later goes to stderr.
func (o *logOutput) Close() {
	o.turn(nil)
	o.own.Close()
}

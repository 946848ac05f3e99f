package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

// folder is where the processes of this user write their events.
type folder struct {
	path string
	off  bool // the configuration says that they are not to
	shut bool // they cannot
}

func (f *statsFlags) folder() (folder, error) {
	c, err := load(f.config)
	if err != nil {
		return folder{}, err
	}
	dir, err := stateDir(c)
	if err != nil {
		return folder{}, err
	}
	d := folder{path: dir.Path(eventsFolder), off: c.Telemetry.Events == "off"}
	d.shut = !writable(d.path)
	return d, nil
}

// elsewhere says where the figures of a process are that writes none.
const elsewhere = "its figures are in its resource mcpschedd://stats and, if it serves HTTP, mcpschedd stats --http URL has them"

// blind says why a process may run without being seen here; "": it may not.
func (d folder) blind() string {
	switch {
	case d.off:
		return `[telemetry] events is "off", so it cannot be seen from here whether a mcpschedd runs; ` + elsewhere
	case d.shut:
		return d.path + " cannot be written to, so it cannot be seen from here whether a mcpschedd runs; " + elsewhere
	}
	return ""
}

// list are the parts of all processes, and which of these run.
func (d folder) list() (all []record.File, runs map[string]bool, err error) {
	if all, err = record.Files(d.path); err != nil {
		return nil, nil, fmt.Errorf("%w: whether a mcpschedd runs cannot be seen from here; %s", err, elsewhere)
	}
	runs = make(map[string]bool)
	for _, file := range all {
		runs[file.Process] = runs[file.Process] || file.Running
	}
	return all, runs, nil
}

// wanted are those of the running processes. If none runs, they are those of the last
// that ended, and ended says when that was.
func wanted(all []record.File) (files []record.File, ended time.Time) {
	var last record.File
	for _, file := range all {
		if file.Running {
			files = append(files, file)
		}
		if file.Modified.After(last.Modified) {
			last = file
		}
	}
	if len(files) > 0 || last.Path == "" {
		return files, ended
	}
	return slices.DeleteFunc(slices.Clone(all), func(file record.File) bool { return file.Process != last.Process }), last.Modified
}

// running shows what the running processes have done until now.
func (f *statsFlags) running(ctx context.Context, stdout, stderr io.Writer) error {
	d, err := f.folder()
	if err != nil {
		return err
	}
	all, runs, err := d.list()
	if err != nil {
		return err
	}
	files, ended := wanted(all)
	r := newReading(f, stderr)
	var names []string
	for _, file := range files {
		names = append(names, file.Path)
	}
	if len(names) > 0 {
		if err := r.read(ctx, names); err != nil {
			return err
		}
	}
	r.over(runs)
	now, of := time.Now(), d.of(files, r.lives)
	switch {
	case len(files) == 0:
		of = d.none()
	case !ended.IsZero():
		now, of = r.last, d.past(ended, r.killed)
	}
	people := !f.json && !f.csv
	if (len(files) == 0 || !ended.IsZero()) && !people {
		fmt.Fprintln(stderr, "mcpschedd: "+plain(strings.TrimSuffix(strings.Join(of, ": "), ":")))
	}
	if len(files) == 0 && people {
		columns, _, _ := terminal(stdout)
		_, err := io.WriteString(stdout, wrapped(of, columns))
		return err
	}
	return r.end(f, stdout, now, of)
}

// of says which processes run.
func (d folder) of(files []record.File, l lives) []string {
	var of []string
	last := ""
	for _, file := range files {
		if file.Process == last || !file.Running {
			continue // another part, or one that has ended
		}
		last = file.Process
		line := "process " + last
		if known := l[last]; known != nil && known.begin.Kind != "" {
			b := &known.begin
			line = fmt.Sprintf("process %d since %s, %s, %s, %s", b.PID, moment(b.At), b.Transport, b.Dir, orDefaults(b.Config))
		}
		of = append(of, line)
	}
	return of
}

// past says of which process the figures are, none of which runs.
func (d folder) past(ended time.Time, dead []killed) []string {
	of := "of the last one, which ended at " + moment(ended) + ":"
	if len(dead) > 0 {
		of = "of the last one, which did not end properly (killed?), its last line at " + moment(dead[0].last) + ":"
	}
	if blind := d.blind(); blind != "" {
		return []string{blind, of}
	}
	return []string{"no mcpschedd is running; " + of}
}

// none says that there is nothing to show, and why that may be.
func (d folder) none() []string {
	if blind := d.blind(); blind != "" {
		return []string{"no mcpschedd has recorded anything: " + blind}
	}
	return []string{"no mcpschedd is running, and none has recorded anything in " + d.path}
}

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/events"
)

// folder is where the processes of this user write their events.
type folder struct {
	path string
	off  bool // the configuration says that they are not to
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
	return folder{path: dir.Path(eventsFolder), off: c.Telemetry.Events == "off"}, nil
}

// files are those of the running processes. If none runs, they are those of the last
// that ended, and ended says when that was.
func (d folder) files() (files []events.File, ended time.Time, err error) {
	all, err := events.Files(d.path)
	if err != nil {
		return nil, ended, err
	}
	var last events.File
	for _, file := range all {
		if file.Running {
			files = append(files, file)
		}
		if file.Modified.After(last.Modified) {
			last = file
		}
	}
	if len(files) > 0 || last.Path == "" {
		return files, ended, nil
	}
	return slices.DeleteFunc(all, func(file events.File) bool { return file.Process != last.Process }), last.Modified, nil
}

// running shows what the running processes have done until now.
func (f *statsFlags) running(ctx context.Context, stdout, stderr io.Writer) error {
	d, err := f.folder()
	if err != nil {
		return err
	}
	files, ended, err := d.files()
	if err != nil {
		return err
	}
	r := newReading(f, stdout, stderr)
	var names []string
	for _, file := range files {
		names = append(names, file.Path)
	}
	if len(names) > 0 {
		if err := r.read(ctx, names); err != nil {
			return err
		}
	}
	now := time.Now()
	of := d.of(files, r.begun)
	switch {
	case len(files) == 0:
		of = d.none()
	case !ended.IsZero():
		now = r.last
		of = []string{"no mcpschedd is running; of the last one, which ended at " + moment(ended) + ":"}
	}
	if (len(files) == 0 || !ended.IsZero()) && (f.json || f.csv || f.trajectory) {
		fmt.Fprintln(stderr, "mcpschedd: "+plain(strings.TrimSuffix(of[0], ":")))
	}
	if len(files) == 0 && !f.json && !f.csv && !f.trajectory {
		_, err := fmt.Fprintln(stdout, plain(of[0]))
		return err
	}
	return r.end(f, stdout, now, of)
}

// of says which processes run.
func (d folder) of(files []events.File, begun map[string]events.Event) []string {
	var of []string
	last := ""
	for _, file := range files {
		if file.Process == last {
			continue // another part
		}
		last = file.Process
		line := last
		if b, ok := begun[last]; ok {
			line = fmt.Sprintf("process %d since %s, %s, %s, %s", b.PID, moment(b.At), b.Transport, b.Dir, orDefaults(b.Config))
		}
		of = append(of, line)
	}
	return of
}

// none says that there is nothing to show, and why that may be.
func (d folder) none() []string {
	if d.off {
		return []string{"no mcpschedd has recorded anything: [telemetry] events is off"}
	}
	return []string{"no mcpschedd is running, and none has recorded anything in " + d.path}
}

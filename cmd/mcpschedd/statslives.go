package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

// mostLives are processes of which it is remembered how they began, and whether they
// have ended.
const mostLives = 1024

// life is what is known of a process that has not said that it ends.
type life struct {
	begin record.Event // its first line; zero: not read
	last  time.Time    // of its lines
}

// lives are those of processes, by their names.
type lives map[string]*life

// saw takes note of a line.
func (l lives) saw(e *record.Event) {
	if e.Kind == record.End && e.Session == "" {
		delete(l, e.Process)
		return
	}
	of := l[e.Process]
	if of == nil {
		if len(l) >= mostLives {
			return
		}
		of = new(life)
		l[strings.Clone(e.Process)] = of
	}
	if e.Kind == record.Begin && of.begin.Kind == "" { // each of its files begins so
		of.begin = *e
	}
	if e.At.After(of.last) {
		of.last = e.At
	}
}

// killed is a process that ended without saying so: there is no last line of it, and
// its lock is free.
type killed struct {
	process string
	last    time.Time // of its lines
}

// killed lets go of the lives that are over, and returns them, the latest first; runs
// says which processes were running before their lines were read.
func (l lives) killed(runs map[string]bool) (all []killed) {
	for process, of := range l {
		if !runs[process] {
			all = append(all, killed{process, of.last})
			delete(l, process)
		}
	}
	slices.SortFunc(all, func(a, b killed) int {
		return cmp.Or(b.last.Compare(a.last), cmp.Compare(a.process, b.process))
	})
	return all
}

// end is the line that is missing: with it nothing of the process counts as open.
func (k *killed) end() *record.Event {
	return &record.Event{Kind: record.End, At: k.last, Process: k.process}
}

// unended says for people that processes did not end properly; "": all did.
func unended(all []killed) string {
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("process %s did not end properly (killed?); its last line is of %s", all[0].process, moment(all[0].last))
	}
	return fmt.Sprintf("%d processes did not end properly (killed?); the last line of the latest is of %s", len(all), moment(all[0].last))
}

// running are the processes that write into one of the folders that names are of.
func running(names []string) map[string]bool {
	runs, asked := make(map[string]bool), make(map[string]bool)
	for _, name := range names {
		for _, dir := range []string{name, filepath.Dir(name)} { // it is a folder, or a file in one
			if name == "-" || asked[dir] {
				continue
			}
			asked[dir] = true
			files, err := record.Files(dir)
			if err != nil {
				continue // no folder
			}
			for _, f := range files {
				runs[f.Process] = runs[f.Process] || f.Running
			}
		}
	}
	return runs
}

package record

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Problem is something in a file that could not be read. Files are not trusted: their
// names and contents may hold what a terminal obeys, which Error leaves out.
type Problem struct {
	File string
	Line int // from 1; 0: the file as a whole
	Text string
}

func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	return Printable(at + ": " + p.Text)
}

// Printable is a text of a stranger without what a terminal may obey: what cannot be
// printed, or turns the direction of writing.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// Read reads files, plain or gzipped: "-" is the standard input, and a folder stands for
// the *.jsonl and *.jsonl.gz in it. Processes come in the order of their names, and the
// parts of each in theirs. A pipe or a device is read if it is named itself.
//
// The event is each's until it returns; it may be kept as a copy. Of a process that neither
// runs nor says that it ended, an end is made up, with Killed. What cannot be read is told to
// bad, and the rest is read all the same: the error is ctx's, or says that none of the names
// could be opened.
func Read(ctx context.Context, names []string, each func(*Event), bad func(Problem)) error {
	var files []File
	for _, name := range names {
		more, err := named(name)
		if err != nil {
			bad(Problem{File: name, Text: Cause(err)})
		}
		files = append(files, more...)
	}
	inOrder(files)
	files = slices.CompactFunc(files, func(a, b File) bool { return filepath.Clean(a.Path) == filepath.Clean(b.Path) })
	opened := NewTail("", time.Time{}).read(ctx, files, each, bad)
	if ctx.Err() == nil && opened == 0 {
		return errors.New(strings.Join(names, ", ") + ": nothing that can be read")
	}
	return ctx.Err()
}

// Tail reads what the processes of a folder have written, and go on to write, bit by bit.
type Tail struct {
	dir     string
	since   time.Time
	sources map[string]*source   // path, without .gz → how far it was read
	alive   map[string]time.Time // process that has not said that it ends → its last event
	buf     *bufio.Reader
}

// mostAlive are remembered.
const mostAlive = 1024

// NewTail returns a Tail of a folder, which need not exist yet. Files of processes that have
// ended and were last written to before since are left out.
func NewTail(dir string, since time.Time) *Tail {
	return &Tail{dir: dir, since: since, sources: make(map[string]*source), alive: make(map[string]time.Time), buf: bufio.NewReaderSize(nil, maxLine)}
}

// Poll reads what was written since the last Poll; the first one reads all. A line that is
// being written waits for the next time. Of each and bad see [Read]. The error is that the
// folder cannot be listed.
func (t *Tail) Poll(each func(*Event), bad func(Problem)) error {
	files, err := Files(t.dir)
	if err == nil {
		t.read(context.Background(), files, each, bad)
	}
	return err
}

// read reads on in those files. It returns how many could be opened.
func (t *Tail) read(ctx context.Context, files []File, each func(*Event), bad func(Problem)) (opened int) {
	there := make(map[string]bool, len(files))
	for _, f := range files {
		plain := strings.TrimSuffix(f.Path, ".gz")
		there[plain] = true
		s := t.sources[plain]
		switch {
		case s == nil && !f.Running && f.Modified.Before(t.since):
			continue
		case s == nil:
			s = &source{file: f.Path, process: f.Process}
			t.sources[plain] = s
		case s.ended || f.Path != s.file || f.Running && f.Size <= s.offset: // what is compressed while it is followed was whole before
			continue
		}
		s.ended = !f.Running
		s.each, s.bad = func(e *Event) { t.saw(e); each(e) }, bad
		if err := s.read(ctx, f, t.buf); err != nil {
			bad(Problem{File: f.Path, Text: Cause(err)})
		} else {
			opened++
		}
		if ctx.Err() != nil {
			return opened
		}
	}
	for _, process := range slices.Sorted(maps.Keys(t.alive)) {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Running && f.Process == process }) {
			last := t.alive[process]
			delete(t.alive, process)
			each(&Event{Kind: End, At: last, Process: process, Killed: true})
		}
	}
	maps.DeleteFunc(t.sources, func(path string, _ *source) bool { return !there[path] })
	return opened
}

// saw takes note of an event on its way.
func (t *Tail) saw(e *Event) {
	if last, known := t.alive[e.Process]; e.Kind == End && e.Session == "" {
		delete(t.alive, e.Process)
	} else if e.At.After(last) && (known || len(t.alive) < mostAlive) || !known && len(t.alive) < mostAlive {
		t.alive[strings.Clone(e.Process)] = e.At
	}
}

// Cause is what went wrong with a file that is named elsewhere.
func Cause(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

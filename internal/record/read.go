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

// Problem is a part of a file that could not be read. Names and contents of files are not
// trusted, so Error replaces characters that could control a terminal.
type Problem struct {
	File string
	Line int // from 1; 0 means the file as a whole
	Text string
}

func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	return Printable(at + ": " + p.Text)
}

// Printable returns an untrusted text with '?' for each character that is not printable, such
// as those that control a terminal or change the direction of writing.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// Read reads files, plain or gzipped. The name "-" is standard input, and a folder stands for
// its *.jsonl and *.jsonl.gz files. Files are read by process name and part. A pipe or a device
// is read only if it is named itself.
//
// The event passed to onEvent is valid until onEvent returns. For a process that neither runs
// nor wrote its end, Read adds an End event with Killed set. It passes what cannot be read to
// onProblem and continues. The error is that of ctx, or says that none of the names could be
// opened.
func Read(ctx context.Context, names []string, onEvent func(*Event), onProblem func(Problem)) error {
	var files []File
	for _, name := range names {
		more, err := filesNamed(name)
		if err != nil {
			onProblem(Problem{File: name, Text: Cause(err)})
		}
		files = append(files, more...)
	}
	sortFiles(files)
	files = slices.CompactFunc(files, func(a, b File) bool { return filepath.Clean(a.Path) == filepath.Clean(b.Path) })
	opened := NewTail("", time.Time{}).read(ctx, files, onEvent, onProblem)
	if ctx.Err() == nil && opened == 0 {
		return errors.New(strings.Join(names, ", ") + ": nothing that can be read")
	}
	return ctx.Err()
}

// Tail follows the logs of the processes of a folder.
type Tail struct {
	dir     string
	since   time.Time
	sources map[string]*source   // path without .gz → read position
	live    map[string]time.Time // process without an end event → time of its last event
	buf     *bufio.Reader
}

// maxLive is the maximum number of processes in Tail.live.
const maxLive = 1024

// NewTail returns a Tail of a folder, which need not exist yet. It skips files of ended
// processes that were last written before since.
func NewTail(dir string, since time.Time) *Tail {
	return &Tail{dir: dir, since: since, sources: make(map[string]*source), live: make(map[string]time.Time), buf: bufio.NewReaderSize(nil, maxLine)}
}

// Poll reads the lines written since the last Poll, or all lines the first time. An incomplete
// last line is left to the next Poll. For onEvent and onProblem see [Read]. Poll returns an
// error only if the folder cannot be listed.
func (t *Tail) Poll(onEvent func(*Event), onProblem func(Problem)) error {
	files, err := Files(t.dir)
	if err == nil {
		t.read(context.Background(), files, onEvent, onProblem)
	}
	return err
}

// read continues to read the files, and returns how many of them could be opened.
func (t *Tail) read(ctx context.Context, files []File, onEvent func(*Event), onProblem func(Problem)) (opened int) {
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
		case s.ended || f.Path != s.file || f.Running && f.Size <= s.offset: // only a complete file is ever compressed
			continue
		}
		s.ended = !f.Running
		s.onEvent, s.onProblem = func(e *Event) { t.observe(e); onEvent(e) }, onProblem
		if err := s.read(ctx, f, t.buf); err != nil {
			onProblem(Problem{File: f.Path, Text: Cause(err)})
		} else {
			opened++
		}
		if ctx.Err() != nil {
			return opened
		}
	}
	for _, process := range slices.Sorted(maps.Keys(t.live)) {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Running && f.Process == process }) {
			last := t.live[process]
			delete(t.live, process)
			onEvent(&Event{Kind: End, At: last, Process: process, Killed: true})
		}
	}
	maps.DeleteFunc(t.sources, func(path string, _ *source) bool { return !there[path] })
	return opened
}

// observe tracks which processes have not ended.
func (t *Tail) observe(e *Event) {
	if last, known := t.live[e.Process]; e.Kind == End && e.Session == "" {
		delete(t.live, e.Process)
	} else if e.At.After(last) && (known || len(t.live) < maxLive) || !known && len(t.live) < maxLive {
		t.live[strings.Clone(e.Process)] = e.At
	}
}

// Cause returns the message of an error without the path, for messages that name the file.
func Cause(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

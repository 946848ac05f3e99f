package record

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
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
	var failed []error
	fail := func(name string, err error) {
		p := Problem{File: name, Text: cause(err)}
		failed = append(failed, p)
		bad(p)
	}
	for _, name := range names {
		more, err := named(name)
		if err != nil {
			fail(name, err)
		}
		files = append(files, more...)
	}
	inOrder(files)
	files = slices.CompactFunc(files, func(a, b File) bool { return filepath.Clean(a.Path) == filepath.Clean(b.Path) })
	buf, lives, opened := bufio.NewReaderSize(nil, maxLine), make(lives), false
	for _, f := range files {
		s := source{file: f.Path, process: f.Process, each: lives.watch(each), bad: bad}
		err := s.read(ctx, f, buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fail(f.Path, err)
		} else {
			opened = true
		}
	}
	lives.end(files, each)
	if !opened && failed == nil {
		return errors.New("record: nothing to read")
	}
	if !opened {
		return errors.Join(failed...)
	}
	return nil
}

// lives are the processes that have not said that they end, and the times of their last
// lines.
type lives map[string]time.Time

const mostLives = 1024 // that are remembered

// watch takes note of the events on their way to each.
func (l lives) watch(each func(*Event)) func(*Event) {
	return func(e *Event) {
		if last, known := l[e.Process]; e.Kind == End && e.Session == "" {
			delete(l, e.Process)
		} else if !known && len(l) < mostLives {
			l[strings.Clone(e.Process)] = e.At
		} else if known && e.At.After(last) {
			l[e.Process] = e.At
		}
		each(e)
	}
}

// end ends those that do not run, by the files that were listed before they were read.
func (l lives) end(files []File, each func(*Event)) {
	for _, process := range slices.Sorted(maps.Keys(l)) {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Running && f.Process == process }) {
			last := l[process]
			delete(l, process)
			each(&Event{Kind: End, At: last, Process: process, Killed: true})
		}
	}
}

// cause is what went wrong with a file that is named elsewhere.
func cause(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// named returns the files that a name stands for.
func named(name string) ([]File, error) {
	if name == "-" {
		return []File{{Path: name, Process: name}}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{single(name)}, nil
	}
	all, err := Files(name)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(name, entry.Name())
		if ours.MatchString(entry.Name()) || !strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl") {
			continue
		}
		if _, ok := regular(path); ok {
			all = append(all, single(path))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no *.jsonl in this folder")
	}
	return all, nil
}

// single is one file; its process and part are in its name, if that is one of ours.
func single(path string) File {
	f := File{Path: path, Process: filepath.Base(path)}
	if m := ours.FindStringSubmatch(f.Process); m != nil && m[2] != "" {
		f.Process = m[1]
		f.Part, _ = strconv.Atoi(m[2])
		f.Running = running(filepath.Dir(path), f.Process)
	}
	return f
}

// inOrder sorts files by process and part.
func inOrder(files []File) {
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Part, b.Part), cmp.Compare(a.Path, b.Path))
	})
}

package record

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is something in a file that could not be read. Files are not trusted: their
// names and contents may hold what a terminal obeys, so Text and Error are escaped as in
// Go.
type Problem struct {
	File string // as it is; Error shows it escaped
	Line int    // from 1; 0: the file as a whole
	Text string
}

func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	return escaped(at + ": " + p.Text)
}

// escaped is a text with what cannot be printed, or turns the direction of writing, as in
// Go. Bytes that are no UTF-8 become U+FFFD: there are terminals that obey them.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Read reads files, plain or gzipped: "-" is the standard input, and a folder stands for
// the *.jsonl and *.jsonl.gz in it. The parts of a process come in their order. A pipe or a
// device is read if it is named itself.
//
// The event is each's until it returns; it may be kept as a copy. What cannot be read is
// told to bad, and the rest is read all the same: the error is ctx's, or says that none of
// the names could be opened.
func Read(ctx context.Context, names []string, each func(*Event), bad func(Problem)) error {
	var files []File
	var failed []error
	fail := func(name string, err error) {
		p := Problem{File: name, Text: escaped(cause(err))}
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
	buf := bufio.NewReaderSize(nil, maxLine)
	opened := false
	for _, f := range inOrder(files) {
		s := source{file: f.Path, process: f.Process, each: each, bad: bad}
		err := s.readFile(ctx, f, buf)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fail(f.Path, err)
		} else {
			opened = true
		}
	}
	if !opened && failed == nil {
		return errors.New("record: nothing to read")
	}
	if !opened {
		return errors.Join(failed...)
	}
	return nil
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
	own, err := Files(name)
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
			own = append(own, single(path))
		}
	}
	if len(own) == 0 {
		return nil, errors.New("no *.jsonl in this folder")
	}
	return own, nil
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

// inOrder puts the parts of each process in order, where the first of them stands, and
// leaves out what was named twice.
func inOrder(files []File) (all []File) {
	place := map[string]int{} // process → where its first part stands
	named := map[string]bool{}
	for i, f := range files {
		path := filepath.Clean(f.Path)
		if named[path] {
			continue
		}
		named[path] = true
		if _, ok := place[f.Process]; !ok {
			place[f.Process] = i
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b File) int {
		if a.Process != b.Process {
			return place[a.Process] - place[b.Process]
		}
		return a.Part - b.Part
	})
	return all
}

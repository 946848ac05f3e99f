package events

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Read reads files, plain or gzipped: "-" is the standard input, and a folder stands
// for the *.jsonl and *.jsonl.gz in it that are files, or links to some. The parts of
// a process come in their order. A pipe or a device is read if it is named itself: to
// wait for what comes from it may take longer than ctx.
//
// The event is each's until it returns; it may be kept as a copy. What cannot be read
// is told to bad, and the rest is read all the same: the error is ctx's, or says that
// none of the names could be opened. The first line of later parts of a process is
// left out.
func Read(ctx context.Context, names []string, each func(*Event), bad func(Problem)) error {
	var files []File
	var failed []error
	fail := func(name string, err error) {
		p := Problem{File: name, Text: shown(cause(err))}
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
	r := bufio.NewReaderSize(nil, maxLine)
	s := source{each: each, bad: bad, seen: new(seen), words: new(words)}
	opened := false
	for _, f := range inOrder(files) {
		err := readFile(ctx, f, r, s)
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
		return errors.New("events: nothing to read")
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
		return []File{one(name)}, nil
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
		base := entry.Name()
		if ours.MatchString(base) || !strings.HasSuffix(base, ".jsonl") && !strings.HasSuffix(base, ".jsonl.gz") {
			continue
		}
		if path := filepath.Join(name, base); isFile(path) {
			own = append(own, one(path))
		}
	}
	if len(own) == 0 {
		return nil, errors.New("no *.jsonl in this folder")
	}
	return own, nil
}

// one is a single file; what it is of is in its name, if that is one of ours.
func one(path string) File {
	f := File{Path: path, Process: filepath.Base(path)}
	if m := ours.FindStringSubmatch(f.Process); m != nil && m[2] != "" {
		f.Process = m[1]
		f.Part, _ = strconv.Atoi(m[2])
		f.Running = running(filepath.Dir(path), f.Process)
	}
	return f
}

// inOrder puts the parts of each process in order, where the first of them stands,
// and leaves out what was named twice.
func inOrder(files []File) []File {
	place := map[string]int{} // process → where its first part stands
	named := map[string]bool{}
	var all []File
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

// readFile reads one file. The error is that it could not be opened.
func readFile(ctx context.Context, f File, buf *bufio.Reader, s source) error {
	in := os.Stdin
	if s.file, s.process = f.Path, f.Process; f.Path == "-" {
		s.file = "stdin"
	} else {
		var err error
		if in, err = os.Open(f.Path); err != nil {
			return err
		}
		defer in.Close()
	}
	buf.Reset(in)
	lines := buf
	if head, _ := buf.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buf)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		lines = bufio.NewReaderSize(z, maxLine)
	}
	err := s.read(lines, !f.Running, func() bool { return ctx.Err() == nil })
	s.end()
	if err != nil {
		s.bad(Problem{s.file, s.line + 1, shown("cannot be read further: " + cause(err))})
	}
	return nil
}

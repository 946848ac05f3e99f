package record

import (
	"bufio"
	"context"
	"io"
	"maps"
	"os"
	"strings"
)

// Tail reads what running processes write, bit by bit.
type Tail struct {
	dir   string
	began bool
	over  map[string]bool    // files that there is nothing more to read from
	open  map[string]*source // path → how far it was read
	buf   *bufio.Reader
}

// NewTail returns a Tail of a folder, which need not exist yet.
func NewTail(dir string) *Tail {
	return &Tail{dir: dir, over: map[string]bool{}, open: map[string]*source{}, buf: bufio.NewReaderSize(nil, maxLine)}
}

// Poll reads what processes have written since the last Poll; the first one reads all that
// the running ones have. A line that is being written waits for the next time. The event is
// each's until it returns. The error is that the folder cannot be listed.
func (t *Tail) Poll(each func(*Event), bad func(Problem)) error {
	files, err := Files(t.dir)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(files))
	for _, f := range files {
		plain := strings.TrimSuffix(f.Path, ".gz") // a compressed part was whole before
		there[plain] = true
		if plain != f.Path || !t.began && !f.Running {
			t.over[plain] = true
		}
		if !t.over[plain] {
			t.read(f, each, bad)
		}
	}
	t.began = true
	maps.DeleteFunc(t.open, func(path string, _ *source) bool { return !there[path] })
	maps.DeleteFunc(t.over, func(path string, _ bool) bool { return !there[path] })
	return nil
}

// read reads what is new in a file.
func (t *Tail) read(f File, each func(*Event), bad func(Problem)) {
	s := t.open[f.Path]
	if s == nil {
		s = &source{file: f.Path, process: f.Process}
		t.open[f.Path] = s
	}
	s.each, s.bad = each, bad
	if f.Size > s.offset || !f.Running {
		if err := s.resume(f, t.buf); err != nil {
			s.problem("cannot be read: " + cause(err))
		}
	}
	if !f.Running {
		s.end()
		delete(t.open, f.Path)
		t.over[f.Path] = true
	}
}

// resume reads on where the last read ended.
func (s *source) resume(f File, buf *bufio.Reader) error {
	in, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := in.Seek(s.offset, io.SeekStart); err != nil {
		return err
	}
	buf.Reset(in)
	return s.read(context.Background(), buf, !f.Running)
}

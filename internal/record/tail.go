package record

import (
	"bufio"
	"context"
	"maps"
	"strings"
	"time"
)

// Tail reads what the processes of a folder have written, and go on to write, bit by bit.
type Tail struct {
	dir   string
	since time.Time
	files map[string]*source // path, without .gz → how far it was read; nil: there is nothing more to read
	lives lives
	buf   *bufio.Reader
}

// NewTail returns a Tail of a folder, which need not exist yet. Files of processes that have
// ended and were last written to before since are left out.
func NewTail(dir string, since time.Time) *Tail {
	return &Tail{dir: dir, since: since, files: make(map[string]*source), lives: make(lives), buf: bufio.NewReaderSize(nil, maxLine)}
}

// Poll reads what was written since the last Poll; the first one reads all. A line that is
// being written waits for the next time. Of each and bad see [Read]. The error is that the
// folder cannot be listed.
func (t *Tail) Poll(each func(*Event), bad func(Problem)) error {
	files, err := Files(t.dir)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(files))
	for _, f := range files {
		plain := strings.TrimSuffix(f.Path, ".gz")
		there[plain] = true
		s, known := t.files[plain]
		switch {
		case known && (s == nil || plain != f.Path): // what is compressed while it is followed was whole before
			t.files[plain] = nil
			continue
		case known && f.Running && f.Size <= s.offset:
			continue
		case !known && !f.Running && f.Modified.Before(t.since):
			t.files[plain] = nil
			continue
		case !known:
			s = &source{file: f.Path, process: f.Process}
			t.files[plain] = s
		}
		s.each, s.bad = t.lives.watch(each), bad
		if err := s.read(context.Background(), f, t.buf); err != nil {
			s.problem("cannot be read: " + cause(err))
		}
		if !f.Running || plain != f.Path {
			t.files[plain] = nil
		}
	}
	t.lives.end(files, each)
	maps.DeleteFunc(t.files, func(path string, _ *source) bool { return !there[path] })
	return nil
}

package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

// source is one file as it is read, at once or bit by bit.
type source struct {
	file    string
	process string // not one of ours: each Begin in it names one
	each    func(*Event)
	bad     func(Problem)

	offset   int64 // behind the last line that was read
	line     int   // its number
	inLong   bool  // offset is inside a line that is too long
	newer    bool  // the lines are of a version that cannot be read
	problems int
	event    Event // used again for each line
}

// readFile reads a file from its beginning. The error is that it could not be opened.
func (s *source) readFile(ctx context.Context, f File, buf *bufio.Reader) error {
	in := os.Stdin
	if f.Path == "-" {
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
	if err := s.read(ctx, lines, !f.Running); err != nil {
		s.line++
		s.problem("cannot be read further: " + cause(err))
	}
	s.end()
	return nil
}

// read reads the lines that are there. The rest behind the last line end is one too if the
// file is whole; else it may still be written.
func (s *source) read(ctx context.Context, r *bufio.Reader, whole bool) error {
	for ctx.Err() == nil {
		b, err := r.ReadSlice('\n')
		rest := errors.Is(err, io.EOF)
		if err != nil && !rest && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if rest && (len(b) == 0 || !whole) {
			return nil
		}
		s.offset += int64(len(b))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if !s.inLong {
				s.inLong = true
				s.line++
				s.problem("a line of more than " + strconv.Itoa(maxLine) + " bytes")
			}
		case s.inLong: // this is the rest of it
			s.inLong = false
		default:
			s.line++
			if err := s.parse(b); err != nil && rest {
				s.problem("the last line is cut short")
			} else if err != nil {
				s.problem(err.Error())
			}
		}
		if rest {
			return nil
		}
	}
	return nil
}

// bom is what some editors put before UTF-8.
var bom = []byte("\xef\xbb\xbf")

// parse reads a line and passes its event on.
func (s *source) parse(b []byte) error {
	if s.line == 1 {
		b = bytes.TrimPrefix(b, bom)
	}
	if rest := bytes.TrimLeft(b, "\x00"); len(rest) < len(b) { // what a file system leaves where it lost data
		s.problem(fmt.Sprintf("%d bytes are zero: lost when the machine stopped", len(b)-len(rest)))
		b = rest
	}
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil
	}
	err := s.event.UnmarshalJSON(b)
	if err == nil && s.event.Kind == Begin {
		s.begin(&s.event)
	}
	switch {
	case s.newer || err != nil && s.announcesNewer(b):
		return nil
	case err != nil && !json.Valid(b):
		return errors.New("not JSON")
	case err != nil:
		return err
	}
	s.event.Process = s.process
	s.each(&s.event)
	return nil
}

// announcesNewer reports whether a line that cannot be read is the first one of a later
// version, in which anything may have changed.
func (s *source) announcesNewer(b []byte) bool {
	var begin struct {
		Kind Kind
		V    int
	}
	if json.Unmarshal(b, &begin) == nil && begin.Kind == Begin && begin.V > Version {
		s.begin(&Event{Kind: Begin, V: begin.V})
	}
	return s.newer
}

// begin looks at the first line of a part.
func (s *source) begin(e *Event) {
	if s.newer = e.V > Version; s.newer {
		s.problem(fmt.Sprintf("written in version %d of the format; this program reads up to version %d", e.V, Version))
	}
	if !ours.MatchString(s.process + ".lock") { // several that were put together, perhaps
		s.process = e.At.UTC().Format(stamp) + "-" + strconv.Itoa(e.PID)
	}
}

// maxProblems is how many bad lines of one file are told of one by one.
const maxProblems = 5

func (s *source) problem(text string) {
	if s.problems++; s.problems <= maxProblems {
		s.bad(Problem{s.file, s.line, escaped(text)})
	}
}

// end tells how many problems were not told of.
func (s *source) end() {
	if n := s.problems - maxProblems; n > 0 {
		s.bad(Problem{s.file, 0, fmt.Sprintf("and %d more lines that cannot be read", n)})
	}
	s.problems = 0
}

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

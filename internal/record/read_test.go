package record_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

// name is the name of a log file.
const name = "20260102T030405-77-0a1b.000.jsonl"

const beginning = `{"kind":"begin","ts":"2026-02-02T02:40:00Z","v":2,"pid":77}` + "\n"

func call(seq int) string { return fmt.Sprintf(`{"kind":"call","session":"s","seq":%d}`+"\n", seq) }

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func zipped(content string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(content))
	_ = z.Close()
	return b.String()
}

// outcome is the result of reading: the numbers of the calls, and the problems without their
// folder.
func outcome(t *testing.T, dir string, names ...string) (seqs []int64, problems []string, err error) {
	t.Helper()
	err = record.Read(t.Context(), names, func(e *record.Event) {
		if e.Kind == record.Call {
			seqs = append(seqs, e.Seq)
		}
	}, func(p record.Problem) {
		problems = append(problems, strings.ReplaceAll(p.Error(), dir+string(filepath.Separator), ""))
	})
	return seqs, problems, err
}

func TestReadBadInput(t *testing.T) {
	long := `{"kind":"call","edge":"` + strings.Repeat("x", record.MaxLine) + `"}` + "\n"
	for _, c := range []struct {
		name, content string
		want          []int64
		problems      []string
	}{
		{"fine", beginning + call(1) + call(2), []int64{1, 2}, nil},
		{"empty", "", nil, nil},
		{"no first line", call(1) + call(2), []int64{1, 2}, nil},
		{"line ends of Windows", strings.ReplaceAll(beginning+call(1)+"\n"+call(2), "\n", "\r\n"), []int64{1, 2}, nil},
		{"compressed", zipped(beginning + call(1)), []int64{1}, nil},
		{"compressed twice in one", zipped(beginning+call(1)) + zipped(call(2)), []int64{1, 2}, nil},
		{"no last line end", beginning + call(1) + strings.TrimSpace(call(2)), []int64{1, 2}, nil},
		{"cut short", beginning + call(1) + call(2)[:20], []int64{1}, []string{name + ":3: the last line is cut short"}},
		{"two lines in one", beginning + call(1)[:20] + call(2) + call(3), []int64{3}, []string{name + ":2: not JSON"}},
		{"zeros", beginning + strings.Repeat("\x00", 4096) + call(1) + call(2), []int64{2}, []string{name + ":2: not JSON"}},
		{"zeros at the end", beginning + call(1) + strings.Repeat("\x00", 3<<20), []int64{1}, []string{name + ":3: a line of more than 1 MiB"}},
		{"a long line", beginning + long + call(1) + long + call(2), []int64{1, 2}, []string{name + ":2: a line of more than 1 MiB", name + ":4: a line of more than 1 MiB"}},
		{"an earlier version", strings.Replace(beginning, `"v":2`, `"v":1`, 1) + call(1), nil, []string{
			name + ":1: written in version 1 of the format; this program reads version 2"}},
		{"a later version", `{"kind":"begin","v":7}` + "\n" + call(1) + "what is this?\n" + call(2), nil, []string{
			name + ":1: written in version 7 of the format; this program reads version 2"}},
		{"a later version, all different", `{"kind":"begin","v":7,"seq":"many"}` + "\n" + `{"kind":"call","seq":"one"}` + "\n", nil, []string{
			name + ":1: written in version 7 of the format; this program reads version 2"}},
		{"a later version among others", `{"kind":"begin","v":7}` + "\n" + call(1) + beginning + call(2), []int64{2}, []string{
			name + ":1: written in version 7 of the format; this program reads version 2"}},
		{"some bad lines", beginning + strings.Repeat("bad\n", 3) + call(1), []int64{1}, []string{
			name + ":2: not JSON", name + ":3: not JSON", name + ":4: not JSON"}},
		{"bad lines before the first good one", "bad\n" + call(1) + call(2), []int64{1, 2}, []string{name + ":1: not JSON"}},
		{"a configuration", "[server]\nname_style = \"auto\"\n\n" + "a = 1\n", nil, []string{
			name + ":1: not JSON", name + ":2: not JSON", name + ":4: not JSON"}},
		{"another record", strings.Repeat(`{"session":"s","seq":1}`+"\n", 3), nil, []string{
			name + ":1: not an event: it has no kind", name + ":2: not an event: it has no kind", name + ":3: not an event: it has no kind"}},
		{"a binary", strings.Repeat("\x7fELF\x00\xff\n\x01", 2), nil, []string{
			name + ":1: not JSON", name + ":2: not JSON", name + ":3: the last line is cut short"}},
		{"one endless line", strings.Repeat("x", 5<<20), nil, []string{name + ":1: a line of more than 1 MiB"}},
		{"compressed, cut short", zipped(beginning + strings.Repeat(call(1), 1))[:60], nil, []string{name + ":1: cannot read further: unexpected EOF"}},
		{"compressed, and something else", zipped(beginning+call(1)) + "something else", []int64{1}, []string{name + ":3: cannot read further: gzip: invalid header"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			seqs, problems, err := outcome(t, dir, write(t, filepath.Join(dir, name), c.content))
			if diff := cmp.Diff(c.want, seqs); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadNames(t *testing.T) {
	dir := t.TempDir()
	part := func(n int) string { return filepath.Join(dir, fmt.Sprintf("20260102T030405-77-0a1b.%03d.jsonl", n)) }
	write(t, part(0), beginning+call(1))
	write(t, part(1), beginning+call(2))
	write(t, part(2)+".gz", zipped(beginning+call(3)))
	write(t, part(999), beginning+call(4))
	first := write(t, filepath.Join(dir, "20250102T030405-99-0a1b.000.jsonl"), beginning+call(11))
	write(t, filepath.Join(dir, "copied.jsonl"), beginning+call(21))
	other := write(t, filepath.Join(dir, "copied.json"), beginning+call(31))
	write(t, filepath.Join(dir, "notes.txt"), "not read")
	write(t, filepath.Join(dir, "key"), "not read")
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")

	for _, c := range []struct {
		name     string
		names    []string
		want     []int64
		problems []string
		err      string
	}{
		{"a folder", []string{dir}, []int64{11, 1, 2, 3, 4, 21}, nil, ""},
		{"parts in any order", []string{part(999), part(1), part(0)}, []int64{1, 2, 4}, nil, ""},
		{"twice", []string{part(0), dir + "/./" + filepath.Base(part(0))}, []int64{1}, nil, ""},
		{"in the order of the processes", []string{other, part(1), first, part(0)}, []int64{11, 1, 2, 31}, nil, ""},
		{"one is missing", []string{missing, part(0)}, []int64{1}, []string{"missing: no such file or directory"}, ""},
		{"all are missing", []string{missing}, nil, []string{"missing: no such file or directory"}, missing + ": nothing that can be read"},
		{"an empty folder", []string{empty}, nil, []string{"empty: no *.jsonl in this folder"}, empty + ": nothing that can be read"},
		{"none", nil, nil, nil, "nothing that can be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seqs, problems, err := outcome(t, dir, c.names...)
			if diff := cmp.Diff(c.want, seqs); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
		})
	}
}

// Concatenated logs are read as the logs of several processes.
func TestReadStdin(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = stdin }()
	go func() {
		_, _ = w.WriteString(beginning + call(1) + beginning + call(2) + strings.Replace(beginning, `"pid":77`, `"pid":78`, 1) + call(3) + "bad")
		_ = w.Close()
	}()
	var got, problems []string
	err = record.Read(t.Context(), []string{"-"}, func(e *record.Event) { got = append(got, fmt.Sprint(e.Process, " ", e.Kind, e.Seq)) },
		func(p record.Problem) { problems = append(problems, p.Error()) })
	want := []string{
		"20260202T024000-77 begin0", "20260202T024000-77 call1", "20260202T024000-77 begin0", "20260202T024000-77 call2",
		"20260202T024000-78 begin0", "20260202T024000-78 call3",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"stdin:7: the last line is cut short"}, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// Control characters in a file or its name do not reach the terminal.
func TestProblemsAreSafeToPrint(t *testing.T) {
	dir := t.TempDir()
	foul := write(t, filepath.Join(dir, "\x1b]0;x\a\u202e\x9b31m.jsonl"), "{\"kind\":\"call\",\"seq\":\"\u009b31m\u2067\"}\n")
	_, problems, err := outcome(t, dir, foul, filepath.Join(dir, "no\x1bne"))
	want := []string{`no?ne: no such file or directory`, "?]0;x??\ufffd31m.jsonl:1: json: cannot unmarshal string into Go struct field Event.seq of type int64"}
	if diff := cmp.Diff(want, problems); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadIsCancelled(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), name), beginning+strings.Repeat(call(1), 10_000))
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := record.Read(ctx, []string{path}, func(*record.Event) {
		if n++; n == 5000 {
			cancel()
		}
	}, func(p record.Problem) { t.Errorf("problem: %v", p) })
	if !errors.Is(err, context.Canceled) || n > 6000 {
		t.Errorf("got %v after %d events, want an end soon after 5000", err, n)
	}
}

func TestFollow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "events")
	var got, problems []string
	tell := func(e *record.Event) { got = append(got, fmt.Sprint(e.Kind, e.Seq)) }
	complain := func(p record.Problem) { problems = append(problems, p.Text) }
	next := record.Follow(dir, time.Time{}, tell, complain)
	poll := func(want ...string) {
		t.Helper()
		got = nil
		err := next()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if poll(); got != nil {
		t.Errorf("got %v of a folder that does not exist", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	old := write(t, filepath.Join(dir, name), beginning+call(8))
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	next = record.Follow(dir, before.Add(time.Minute), tell, complain)
	poll() // what had ended before that

	l := record.Open(record.Options{Dir: dir})
	defer l.Close()
	l.Add(record.Event{Kind: record.Call, Seq: 1})
	l.Flush()
	poll("begin0", "call1")
	poll()
	l.Add(record.Event{Kind: record.Call, Seq: 2})
	l.Flush()
	path := must(record.Files(dir))[1].Path
	half, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	add := func(text string) {
		if _, err := half.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	add(call(3)[:10])
	poll("call2") // not the partial line
	if got := read(t, path); len(got) != 3 {
		t.Errorf("Read: got %d events, want 3, and no problem with the partial line", len(got))
	}
	add(call(3)[10:])
	poll("call3")
	l.Close()
	later := record.Event{At: time.Now().Add(time.Hour)}         // so that its file is sorted after the other one
	short := record.Open(record.Options{Dir: dir, Begin: later}) // begins and ends between two polls
	short.Add(record.Event{Kind: record.Call, Seq: 5})
	short.Close()
	poll("end0", "begin0", "call5", "end0")
	if problems != nil {
		t.Errorf("got %q", problems)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	poll()
	write(t, dir, "a file")
	if err := next(); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that this is no folder", err)
	}
}

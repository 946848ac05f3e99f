package jsonrpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
)

// readAll returns all results of Next up to the final error. It checks that returned lines
// do not change while the Reader continues.
func readAll(t *testing.T, r *jsonrpc.Reader) (lines []string, last error) {
	t.Helper()
	var before []byte
	for {
		line, err := r.Next()
		if len(lines) > 0 && before != nil && string(before) != lines[len(lines)-1] {
			t.Errorf("%.99q has become %.99q", lines[len(lines)-1], before)
		}
		before = nil
		var long *jsonrpc.MessageTooLong
		switch {
		case errors.As(err, &long):
			lines = append(lines, "too long: "+string(long.Head))
		case err != nil:
			if _, again := r.Next(); again != err {
				t.Errorf("got %v after %v, want the same error", again, err)
			}
			return lines, err
		default:
			lines = append(lines, string(line))
			before = append(line, "!!!!"...)[:len(line)]
		}
	}
}

// borrowAll is like readAll but uses Borrow. It holds every other line until the end.
func borrowAll(r *jsonrpc.Reader) (lines []string) {
	var held []*jsonrpc.Buffer
	var of []int // held[i] is lines[of[i]]
	for {
		b, err := r.Borrow()
		if long, ok := errors.AsType[*jsonrpc.MessageTooLong](err); ok {
			lines = append(lines, "too long: "+string(long.Head))
			continue
		}
		if err != nil {
			for i, b := range held {
				lines[of[i]] = string(b.Line)
			}
			return lines
		}
		lines = append(lines, string(b.Line))
		if len(lines)%2 == 0 {
			held, of = append(held, b), append(of, len(lines)-1)
		} else {
			b.Release()
		}
	}
}

// Next returns the right error at the end of a stream. FuzzReader checks the lines before it.
func TestReader(t *testing.T) {
	broken := errors.New("broken")
	long := strings.Repeat("0123456789", 100_000)
	tests := []struct {
		name  string
		in    io.Reader
		max   int
		want  []string
		error error
	}{
		{"empty", strings.NewReader(""), 0, nil, io.EOF},
		{"end inside a line", strings.NewReader("a\nb"), 0, []string{"a"}, io.ErrUnexpectedEOF},
		{"data with the end", iotest.DataErrReader(strings.NewReader("a\nb\n")), 0, []string{"a", "b"}, io.EOF},
		{"error", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 0, []string{"a"}, broken},
		{"nothing for ever", nothing{}, 0, nil, io.ErrNoProgress},
		{"far beyond the limit", strings.NewReader(long + "\na\n" + long + "\r\nb\n"), 9, []string{"too long: " + long[:4096], "a", "too long: " + long[:4096], "b"}, io.EOF},
		{"end inside a line too long", strings.NewReader(long), 9, []string{"too long: " + long[:4096]}, io.ErrUnexpectedEOF},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readAll(t, jsonrpc.NewReader(test.in, test.max))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%.2000s", diff)
			}
			if err != test.error {
				t.Errorf("got %v, want %v", err, test.error)
			}
		})
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestReaderAllocations(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	for _, size := range []int{10, 1000, 60_000, 100_000, 1 << 20} {
		r := jsonrpc.NewReader(&endless{line: append(bytes.Repeat([]byte("x"), size), '\n')}, 0)
		n := testing.AllocsPerRun(20, func() {
			line, err := r.Next()
			if len(line) != size || err != nil {
				t.Fatalf("got %d bytes, %v, want %d", len(line), err, size)
			}
			if cap(line) > size+size/4+16 {
				t.Errorf("got capacity %d for %d bytes", cap(line), size)
			}
		})
		if n > 1 && !checking() { // under the race detector, pools drop buffers at random
			t.Errorf("%d bytes: got %v allocations, want 1", size, n)
		}
	}
}

// A line that exceeds the limit is never held in memory as a whole.
func TestReaderMemoryTooLong(t *testing.T) {
	r := jsonrpc.NewReader(io.MultiReader(&xs{200 << 20}, strings.NewReader("\nok\n")), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := r.Next(); err == nil {
		t.Error("got no error, want line too long")
	}
	if got, err := r.Next(); string(got) != "ok" {
		t.Errorf("got %s, %v, want ok", got, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("got %d bytes allocated for a line of 200 MiB and a limit of 1 MiB", n)
	}
}

// A long line does not enlarge the Reader's memory for long.
func TestReaderMemoryAfterwards(t *testing.T) {
	r := jsonrpc.NewReader(io.MultiReader(&xs{40 << 20}, strings.NewReader("\nok\n")), 0)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if line, err := r.Next(); len(line) != 40<<20 || err != nil {
		t.Errorf("got %d bytes, %v, want 40 MiB", len(line), err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+4<<20 {
		t.Errorf("got %d bytes kept after a line of 40 MiB", after.HeapAlloc-before.HeapAlloc)
	}
	if got, err := r.Next(); string(got) != "ok" {
		t.Errorf("got %s, %v, want ok", got, err)
	}
}

// xs returns n times "x".
type xs struct{ n int }

func (r *xs) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.n)
	for i := range p[:n] {
		p[i] = 'x'
	}
	r.n -= n
	return n, nil
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\n\r\nlong line\r\r\nx"), 5, []byte("y\nz"), []byte{1, 2, 3}, 5)
	f.Add([]byte("a\nb"), 262_140, []byte("\r\nc\n"), []byte{255}, 0)
	f.Add([]byte("a\nb"), 262_142, []byte("\r\nc\n\n\r\nd"), []byte(nil), 0)
	f.Add([]byte("\n"), 590_000, []byte("\r\r\nc\n"), []byte{255, 7}, 300_000)
	f.Add([]byte("abcde\nabcde\r\nabcdef\na\rb\r\r\nabcde\r\r\n"), 0, []byte("b\n\n"), []byte{1}, 5)
	f.Add([]byte("0"), 0, []byte("00000"), []byte("0"), 5)
	f.Add([]byte(" \n\t \r\n a\n"), 0, []byte("b \n  "), []byte{2}, 5)
	f.Add([]byte("a\nb"), 99_990, []byte("0123456789\r\nc\n"), []byte{255, 1}, 100_000)
	f.Fuzz(func(t *testing.T, before []byte, long int, after, chunks []byte, limit int) {
		// Insert a long run, which the fuzzer is unlikely to generate.
		in := slices.Concat(before, bytes.Repeat([]byte("x"), int(uint(long)%600_000)), after)
		var want []string
		rest := bytes.Split(in, []byte("\n"))
		for _, line := range rest[:len(rest)-1] {
			text := bytes.TrimSuffix(line, []byte("\r"))
			switch {
			case limit > 0 && len(text) > limit:
				want = append(want, "too long")
			case blank(text):
			default:
				want = append(want, string(text))
			}
		}
		end := io.EOF
		tail := rest[len(rest)-1]
		if limit > 0 && len(bytes.TrimSuffix(tail, []byte("\r"))) > limit {
			end, want = io.ErrUnexpectedEOF, append(want, "too long")
		} else if !blank(tail) {
			end = io.ErrUnexpectedEOF
		}

		got, err := readAll(t, jsonrpc.NewReader(&chunked{in: in, sizes: chunks}, limit))
		if diff := cmp.Diff(got, borrowAll(jsonrpc.NewReader(&chunked{in: in, sizes: chunks}, limit))); diff != "" {
			t.Errorf("lines borrowed (-read +borrowed):\n%.2000s", diff)
		}
		at := 0 // each Head is a prefix of a line after the previous one
		for i, line := range got {
			if head, long := strings.CutPrefix(line, "too long: "); long {
				next := bytes.Index(in[at:], []byte(head))
				if next < 0 || len(head) > 4096 || head == "" {
					t.Fatalf("got head %q", head)
				}
				at += next + len(head)
				got[i] = "too long"
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines (-want +got):\n%.2000s", diff)
		}
		if err != end {
			t.Errorf("got %v, want %v", err, end)
		}
	})
}

// blank reports whether a line has only JSON's white space.
func blank(line []byte) bool { return len(bytes.Trim(line, " \t\r")) == 0 }

// chunked returns in in chunks of repeating sizes.
type chunked struct {
	in    []byte
	sizes []byte
	next  int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	size := len(c.in)
	if len(c.sizes) > 0 {
		size = 1 + int(c.sizes[c.next%len(c.sizes)])*int(c.sizes[c.next%len(c.sizes)])
		c.next++
	}
	n := copy(p[:min(len(p), size)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func ExampleReader() {
	r := jsonrpc.NewReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"), 64<<20)
	for {
		line, err := r.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		m, err := jsonrpc.Parse(line)
		fmt.Println(m.Method, string(m.ID), err)
	}
	// Output:
	// ping 1 <nil>
	// EOF
}

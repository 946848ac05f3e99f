package jsonrpc_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// borrow returns the only line of a stream as a message with its Buffer.
func borrow(t testing.TB, line []byte) jsonrpc.Message {
	t.Helper()
	b, err := jsonrpc.NewReader(bytes.NewReader(append(bytes.Clone(line), '\n')), 0).Borrow()
	if err != nil {
		t.Fatal(err)
	}
	m, err := jsonrpc.Parse(b.Line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	m.Buffer = b
	return m
}

// If the result is not the message's own, Reframe does not write in place.
func TestReframeAnother(t *testing.T) {
	m := borrow(t, []byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`))
	for _, result := range []string{`{"b":22}`, `{"c":3}`, `{}`} {
		want := jsonrpc.AppendResult(nil, []byte("9"), []byte(result))
		if got := m.Reframe([]byte("9"), []byte(result)); !bytes.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if string(m.Result) != `{"a":1}` {
		t.Errorf("got %s, want an unchanged result", m.Result)
	}
	m.Result = []byte(`{"in its place":true}`)
	if got, want := m.Reframe([]byte("9"), m.Result), `{"jsonrpc":"2.0","id":9,"result":{"in its place":true}}`; string(got) != want {
		t.Errorf("got %q, want %s", got, want)
	}
	own, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`))
	want := `{"jsonrpc":"2.0","id":9,"result":{"a":1}}`
	if got := own.Reframe([]byte("9"), own.Result); string(got) != want {
		t.Errorf("got %s without a buffer, want %s", got, want)
	}
}

func FuzzReframe(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`), []byte(`"x"`), 0)
	f.Add([]byte(`{"result":[1,2] , "id":"k","jsonrpc":"2.0"}`), []byte(`12345678901234567890`), 9)
	f.Add([]byte(`{"result":{},"jsonrpc":"2.0","id":1}`), []byte(`"`+strings.Repeat("k", 39)+`"`), 0)
	f.Add([]byte(`{"result":{},"jsonrpc":"2.0","id":1}`), []byte(`"`+strings.Repeat("k", 400)+`"`), 0)
	f.Add([]byte("\t{\"\\u0072esult\":{},\"id\":0,\"jsonrpc\":\"2.0\",\"more\":null}"), []byte(`0`), 20000)
	f.Fuzz(func(t *testing.T, raw, id []byte, pad int) {
		if bytes.IndexByte(raw, '\n') >= 0 || bytes.HasSuffix(raw, []byte("\r")) {
			t.Skip() // no line
		}
		if m, err := jsonrpc.Parse(raw); err != nil || m.Result == nil {
			t.Skip()
		}
		raw = append(raw, bytes.Repeat([]byte(" "), min(max(pad, 0), 40000))...)
		m := borrow(t, raw)
		want := jsonrpc.AppendResult(nil, id, m.Result)
		if got := m.Reframe(id, m.Result); !bytes.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		m.Buffer.Release()
	})
}

// Buffers are reused after Release, and lines that are still held do not change.
func TestBorrowedLinesStay(t *testing.T) {
	var stream bytes.Buffer
	var want []string
	for i := range 400 {
		size := []int{1, 900, 17 << 10, 70 << 10, 300 << 10}[i%5] + 13*i
		line := fmt.Sprintf("%d %s", i, strings.Repeat(string(rune('a'+i%26)), size))
		want = append(want, line)
		stream.WriteString(line + "\n")
	}
	r := jsonrpc.NewReader(&stream, 0)
	held := make(map[int]*jsonrpc.Buffer)
	release := func(i int) {
		if b := held[i]; b != nil {
			if string(b.Line) != want[i] {
				t.Errorf("line %d: got %.20q… of %d bytes, want %.20q… of %d", i, b.Line, len(b.Line), want[i], len(want[i]))
			}
			b.Release()
			delete(held, i)
		}
	}
	for i := range want {
		b, err := r.Borrow()
		if err != nil {
			t.Fatal(err)
		}
		held[i] = b
		if i%3 != 0 { // the others are held for longer
			release(i - i%7)
		}
	}
	if _, err := r.Borrow(); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
	for i := range want {
		release(i)
	}
}

// Released buffers are reused: reading lines does not allocate, except the last buffer of a line
// that is too long for the pool.
func TestBorrowAllocates(t *testing.T) {
	if checking() {
		t.Skip("under the race detector a sync.Pool drops items at random")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	for size, most := range map[int]float64{10: 0, 1000: 0, 60_000: 0, 100_000: 0, 1 << 20: 0, 5 << 20: 2} {
		r := jsonrpc.NewReader(&endless{line: append(bytes.Repeat([]byte("x"), size), '\n')}, 0)
		n := testing.AllocsPerRun(20, func() {
			b, err := r.Borrow()
			if err != nil || len(b.Line) != size {
				t.Fatalf("got %v, want a line of %d bytes", err, size)
			}
			b.Release()
		})
		if n > most {
			t.Errorf("%d bytes: got %v allocations a line, want at most %v", size, n, most)
		}
	}
}

// checking reports whether released lines are overwritten.
func checking() bool {
	b, err := jsonrpc.NewReader(strings.NewReader("line\n"), 0).Borrow()
	if err != nil {
		return false
	}
	line := b.Line
	b.Release()
	return line[0] == '#'
}

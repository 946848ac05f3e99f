package jsonrpc_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// What the peer takes at once is written when Send returns, and costs nothing.
func TestWriterDirect(t *testing.T) {
	from, to := pipe(t)
	w := jsonrpc.NewWriter(to)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	want := append(bytes.Clone(line), '\n')
	got := make([]byte, len(want))
	allocs := testing.AllocsPerRun(100, func() {
		if err := w.Send(line); err != nil {
			t.Fatal(err)
		}
		if w.Queued() != 0 {
			t.Fatalf("got %d bytes queued, want none", w.Queued())
		}
		if _, err := io.ReadFull(from, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
	if allocs != 0 {
		t.Errorf("got %v allocations a line, want none", allocs)
	}
	if err := w.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// What it does not take at once is copied once, and nothing else: the line is the
// caller's again.
func TestWriterDirectRest(t *testing.T) {
	from, to := pipe(t)
	w := jsonrpc.NewWriter(to)
	line := bytes.Repeat([]byte("x"), 10<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 {
		if err := w.Send(line); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if queued := w.Queued(); queued < 15<<20 || queued >= 20<<20 {
		t.Errorf("got %d bytes queued, want most of two lines of 10 MiB", queued)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 21<<20 {
		t.Errorf("got %d bytes allocated to queue two lines of 10 MiB", n)
	}
	want := append(bytes.Clone(line), '\n')
	clear(line)
	got := make([]byte, len(want))
	for range 2 {
		if _, err := io.ReadFull(from, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got another line than was sent, %v", err)
		}
	}
	w.Close()
}

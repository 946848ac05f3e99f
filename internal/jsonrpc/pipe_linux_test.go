package jsonrpc_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
)

func TestPipe(t *testing.T) {
	from, to := pipe(t)
	r, w := jsonrpc.NewPipe(from), jsonrpc.NewWriter(jsonrpc.NewPipe(to))
	want := append(bytes.Repeat([]byte("x"), 3<<20), '\n') // more than a pipe holds
	if err := w.Send(want[:len(want)-1]); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got other bytes than those sent, %v", err)
	}
	r.SetReadDeadline(time.Unix(1, 0))
	if _, err := r.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a deadline exceeded", err)
	}
	r.SetReadDeadline(time.Time{})
	w.Close()
	if n, err := r.Read(got); n != 0 || err != io.EOF {
		t.Errorf("got %d bytes, %v, want the end", n, err)
	}
}

// Close unblocks a read.
func TestPipeCloseWhileReading(t *testing.T) {
	from, _ := pipe(t)
	r := jsonrpc.NewPipe(from)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Read(make([]byte, 1))
		ended <- err
	}()
	r.Close()
	if err := <-ended; err == nil {
		t.Error("got no error, want one")
	}
}

// Another process with the same standard streams may set them to blocking mode. That does not
// affect streams that were opened again.
func TestOpenStream(t *testing.T) {
	from, to := pipe(t)
	reader, err := jsonrpc.OpenStream(from)
	out, outErr := jsonrpc.OpenStream(to)
	if err != nil || outErr != nil {
		t.Fatal(err, outErr)
	}
	defer reader.Close()
	in, reopened := reader.(*jsonrpc.Pipe)
	if !reopened {
		t.Skip("a pipe is not opened again under the race detector, or without /proc")
	}
	for _, shared := range []*os.File{from, to} {
		if err := syscall.SetNonblock(int(shared.Fd()), false); err != nil {
			t.Fatal(err)
		}
	}
	w := jsonrpc.NewWriter(out)
	defer w.Close()
	for range 3 { // in blocking mode the first one would wait for a reader
		if err := w.Send(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(in, make([]byte, 3<<20)); err != nil {
		t.Error(err)
	}
	in.SetReadDeadline(time.Now())
	if _, err := io.Copy(io.Discard, in); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a deadline exceeded", err)
	}
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if stream, err := jsonrpc.OpenStream(file); err != nil || stream != io.ReadWriteCloser(file) {
		t.Errorf("got %v and %v of a file, want the file", stream, err)
	}
}

// Send writes what the peer accepts at once before it returns, without an allocation.
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
	w.Close()
}

// Send copies what the peer does not accept at once, and does not retain the line.
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
			t.Errorf("got another line than the one sent, %v", err)
		}
	}
	w.Close()
}

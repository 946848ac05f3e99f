package jsonrpc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A peer that does not read never blocks Send; its lines are queued. When it reads again, it gets
// all lines in order.
func TestWriterSlowPeer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		w := jsonrpc.NewWriter(to)
		var want bytes.Buffer
		for i := range 100 {
			line := fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", i*i*10))
			if err := w.Send(line); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&want, "%s\n", line)
		}
		synctest.Wait()
		if got := w.Queued(); got != want.Len() {
			t.Errorf("got %d bytes queued, want %d", got, want.Len())
		}
		half := make(chan struct{})
		go func() {
			if err := w.Drain(t.Context(), want.Len()/2); err != nil {
				t.Errorf("drain to half: %v", err)
			}
			close(half)
		}()
		if err := w.Drain(t.Context(), want.Len()); err != nil {
			t.Errorf("drain to what is queued: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Drain(ctx, 0); err != context.DeadlineExceeded {
			t.Errorf("drain: got %v, want deadline exceeded", err)
		}
		if closed(half) {
			t.Error("drain to half returned before the peer has read")
		}

		got := make([]byte, want.Len())
		if _, err := io.ReadFull(from, got[:len(got)*2/3]); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !closed(half) || w.Queued() == 0 {
			t.Errorf("drain to half returned: %v, with %d bytes queued", closed(half), w.Queued())
		}
		if _, err := io.ReadFull(from, got[len(got)*2/3:]); err != nil {
			t.Fatal(err)
		}
		if err := w.Drain(t.Context(), 0); err != nil {
			t.Errorf("drain: %v", err)
		}
		if w.Queued() != 0 {
			t.Errorf("got %d bytes queued, want all drained", w.Queued())
		}
		if diff := cmp.Diff(want.String(), string(got)); diff != "" {
			t.Errorf("lines (-want +got):\n%.2000s", diff)
		}
		w.Close()
	})
}

func TestWriterCloseWhileBlocked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, to := io.Pipe()
		w := jsonrpc.NewWriter(to)
		for range 3 {
			if err := w.Send([]byte("line")); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- w.Drain(t.Context(), 0) }()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(w.Close)
		}
		wg.Wait()
		if err := <-drained; err != os.ErrClosed {
			t.Errorf("drain: got %v, want %v", err, os.ErrClosed)
		}
		if err := w.Send([]byte("late")); err != os.ErrClosed {
			t.Errorf("send: got %v, want %v", err, os.ErrClosed)
		}
		if w.Queued() != 0 {
			t.Error("got lines queued after Close")
		}
	})
}

// Close returns after the last write has returned.
func TestWriterCloseWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := &slowEnd{end: make(chan struct{})}
		w := jsonrpc.NewWriter(slow)
		if err := w.Send([]byte("line")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.Close()
		if !slow.done {
			t.Error("close returned during a write")
		}
	})
}

// slowEnd blocks its write until after Close.
type slowEnd struct {
	end  chan struct{}
	done bool
}

func (s *slowEnd) Write(p []byte) (int, error) {
	<-s.end
	time.Sleep(time.Second)
	s.done = true
	return 0, os.ErrClosed
}

func (s *slowEnd) Close() error {
	close(s.end)
	return nil
}

// Short queued lines are joined into pieces of bounded size.
func TestWriterJoins(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		peer := &sizes{first: make(chan struct{})}
		w := jsonrpc.NewWriter(peer)
		for range 1000 {
			if err := w.Send(bytes.Repeat([]byte("x"), 999)); err != nil {
				t.Fatal(err)
			}
		}
		close(peer.first)
		if err := w.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, n := range peer.writes {
			total += n
			if n > 256<<10 {
				t.Errorf("got a write of %d bytes, want at most 256 KiB", n)
			}
		}
		if total != 1_000_000 || len(peer.writes) > 50 {
			t.Errorf("got %d bytes in %d writes, want 1000000 in a few", total, len(peer.writes))
		}
	})
}

// sizes records the sizes of writes, and blocks the first one.
type sizes struct {
	first  chan struct{}
	writes []int
}

func (s *sizes) Write(p []byte) (int, error) {
	<-s.first
	s.writes = append(s.writes, len(p))
	return len(p), nil
}

func TestWriterErrors(t *testing.T) {
	gone := errors.New("gone")
	tests := []struct {
		name string
		w    io.Writer
		want error
	}{
		{"error", failing{0, gone}, gone},
		{"part and error", failing{2, gone}, gone},
		{"short write", failing{2, nil}, io.ErrShortWrite},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := jsonrpc.NewWriter(test.w)
				for range 3 {
					if err := w.Send([]byte("line")); err != nil && err != test.want {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if err := w.Send([]byte("line")); err != test.want {
					t.Errorf("send: got %v, want %v", err, test.want)
				}
				if err := w.Drain(t.Context(), 0); err != test.want {
					t.Errorf("drain: got %v, want %v", err, test.want)
				}
				if w.Close(); w.Queued() != 0 {
					t.Errorf("close: got %d bytes queued", w.Queued())
				}
				if err := w.Send([]byte("line")); err != test.want {
					t.Errorf("send after close: got %v, want %v", err, test.want)
				}
			})
		})
	}
}

// failing accepts n bytes of each write.
type failing struct {
	n   int
	err error
}

func (f failing) Write([]byte) (int, error) { return f.n, f.err }

// pipe is a pipe of the operating system.
func pipe(t *testing.T) (from, to *os.File) {
	t.Helper()
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		from.Close()
		to.Close()
	})
	return from, to
}

// Many goroutines send lines shorter and longer than a pipe holds. Every line arrives whole,
// and each sender's lines arrive in order.
func TestWriterManySenders(t *testing.T) {
	const senders, lines = 8, 200
	from, to := pipe(t)
	w := jsonrpc.NewWriter(to)
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range lines {
				size := i
				if i%50 == sender {
					size = 30_000 * (1 + i%13)
				}
				line := fmt.Appendf(nil, "%d %d %d %s", sender, i, size, strings.Repeat("x", size))
				if err := w.Send(line); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
		if err := w.Drain(context.Background(), 0); err != nil {
			t.Errorf("drain: %v", err)
		}
		w.Close()
	}()

	var next [senders]int
	in := bufio.NewReaderSize(from, 777)
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		var sender, i, size int
		if _, err := fmt.Sscan(line, &sender, &i, &size); err != nil {
			t.Fatalf("got %.40q: %v", line, err)
		}
		if want := fmt.Sprintf("%d %d %d %s\n", sender, next[sender], size, strings.Repeat("x", size)); line != want {
			t.Fatalf("got %.40q (%d bytes), want %.40q (%d bytes)", line, len(line), want, len(want))
		}
		next[sender]++
	}
	<-done
	for sender, n := range next {
		if n != lines {
			t.Errorf("sender %d: got %d lines, want %d", sender, n, lines)
		}
	}
}

// Lines of all lengths around the thresholds of the Writer arrive.
func TestWriterSizes(t *testing.T) {
	from, to := pipe(t)
	w := jsonrpc.NewWriter(to)
	var want []int
	for _, around := range []int{1, 4096, 32 << 10, 64 << 10, 128 << 10} {
		for size := around - 1; size <= around+1; size++ {
			want = append(want, size)
		}
	}
	got := make(chan []int)
	go func() {
		var sizes []int
		all, err := io.ReadAll(from)
		if err != nil {
			t.Error(err)
		}
		for line := range bytes.Lines(all) {
			sizes = append(sizes, len(line)-1)
		}
		got <- sizes
	}()
	for _, size := range want {
		// First each line alone, then all of them queued.
		if err := w.Send(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
		if err := w.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if got := w.Queued(); got != 0 {
			t.Fatalf("got %d bytes queued after that, want none", got)
		}
	}
	for _, size := range want {
		if err := w.Send(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if diff := cmp.Diff(append(want, want...), <-got); diff != "" {
		t.Errorf("line lengths (-want +got):\n%s", diff)
	}
}

func TestWriterPeerNeverReads(t *testing.T) {
	_, to := pipe(t)
	w := jsonrpc.NewWriter(to)
	for range 20 {
		if err := w.Send(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Queued(); got < 15<<20 {
		t.Errorf("got %d bytes queued, want most of 20 MiB", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Drain(ctx, 0); err != context.Canceled {
		t.Errorf("drain: got %v, want %v", err, context.Canceled)
	}
	w.Close() // hangs if the write is not interrupted
	if err := w.Send([]byte("late")); err != os.ErrClosed {
		t.Errorf("send: got %v, want %v", err, os.ErrClosed)
	}
}

func TestWriterPeerGone(t *testing.T) {
	from, to := pipe(t)
	w := jsonrpc.NewWriter(to)
	if err := w.Send(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	from.Close()
	if err := w.Drain(t.Context(), 0); err == nil {
		t.Error("drain: got no error, want the pipe's")
	}
	if err := w.Send([]byte("late")); err == nil || err == os.ErrClosed {
		t.Errorf("send: got %v, want the pipe's error", err)
	}
	w.Close()
}

// A write to a file in blocking mode cannot be interrupted: neither Send nor Close may wait
// for it.
func TestWriterBlockingFile(t *testing.T) {
	from, to := pipe(t)
	to.Fd() // sets blocking mode
	w := jsonrpc.NewWriter(to)
	if err := w.Send(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Send([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Read(make([]byte, 1)); err != nil { // the write has begun
		t.Fatal(err)
	}
	w.Close()
	from.Close() // ends the write and with it the goroutine
}

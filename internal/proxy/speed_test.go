package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// BenchmarkCall measures consecutive calls through the proxy to a process and back. The allocations must not depend
// on the size of the answer; most of the time is the process's.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			c := dial(b)
			line := bigCall(size)
			c.ask(b, line)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				c.ask(b, line)
			}
		})
	}
}

// bigCall returns a call for an answer with a text of size bytes.
func bigCall(size int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1000000001,"method":"tools/call","params":{"name":"big","arguments":{"n":%d}}}`+"\n", size)
}

// bare is a client that does not parse answers.
type bare struct {
	in  io.Writer
	out *bufio.Reader
}

// dial serves a bare client of the handshake era before one upstream.
func dial(tb testing.TB) *bare {
	return dialTo(tb, options(child(tb, mcptest.Options{Name: "one"})))
}

// dialTo serves a bare client that has listed the tools.
func dialTo(tb testing.TB, o proxy.Options) *bare {
	s := proxy.New(o, nil)
	in, toProxy, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	fromProxy, out, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(context.Background(), in, out, "") }()
	tb.Cleanup(func() {
		toProxy.Close()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
		s.Close()
		in.Close()
		fromProxy.Close()
	})
	c := &bare{in: toProxy, out: bufio.NewReaderSize(fromProxy, 2<<20)}
	c.ask(tb, []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bare","version":"1"}}}`+"\n"))
	c.ask(tb, []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n"))
	return c
}

// ask writes one request and reads one line.
func (c *bare) ask(tb testing.TB, line []byte) []byte {
	if _, err := c.in.Write(line); err != nil {
		tb.Fatal(err)
	}
	answer, err := c.out.ReadSlice('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return answer
}

// BenchmarkStored measures one call that the store answers, from the bytes of the request on a
// pipe to those of the answer on another, for answers of two sizes.
func BenchmarkStored(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			c := dialTo(b, stored(b, []valuemodel.Rule{reading("one/big", time.Hour)}, child(b, mcptest.Options{Name: "one"})))
			line := bigCall(size)
			c.ask(b, line)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if answer := c.ask(b, line); !bytes.Contains(answer[len(answer)-200:], []byte(`"mcpschedd/disposition":"hit"`)) {
					b.Fatalf("got %.200s, want a hit", answer)
				}
			}
		})
	}
}

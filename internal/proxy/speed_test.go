package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
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
// pipe to those of the answer on another: for answers of several sizes, and of a server with few tools
// and with many.
func BenchmarkStored(b *testing.B) {
	run := func(b *testing.B, size int, server mcptest.Options) {
		c := dialTo(b, stored(b, []valuemodel.Rule{reading("one/big", time.Hour)}, child(b, server)))
		line := bigCall(size)
		c.ask(b, line)
		b.ReportAllocs()
		b.SetBytes(int64(size))
		for b.Loop() {
			if answer := c.ask(b, line); !bytes.Contains(answer[len(answer)-200:], []byte(`"mcpschedd/disposition":"hit"`)) {
				b.Fatalf("got %.200s, want a hit", answer)
			}
		}
	}
	for _, size := range []int{1 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) { run(b, size, mcptest.Options{Name: "one"}) })
	}
	for _, n := range []int{10, 2000} {
		b.Run(fmt.Sprintf("%dtools", n), func(b *testing.B) {
			tools := []string{`{"name":"big"}`}
			for i := range n - 1 {
				tools = append(tools, fmt.Sprintf(`{"name":"tool%d"}`, i))
			}
			run(b, 1<<10, mcptest.Options{Name: "one", Tools: tools})
		})
	}
}

// BenchmarkPrefetch measures consecutive calls that pass through, with every call observed, learned from and
// prefetched from, and with all of that off. No call leaves time for a prefetch.
func BenchmarkPrefetch(b *testing.B) {
	for _, mode := range []string{"off", "on"} {
		for _, size := range []int{1 << 10, 100 << 10} {
			b.Run(fmt.Sprintf("%s/%dKB", mode, size>>10), func(b *testing.B) {
				up := child(b, mcptest.Options{Name: "one"})
				up.Exclusive = true
				o := stored(b, []valuemodel.Rule{reading("one/big", 0)}, up)
				o.Enrichment.Mode, o.Enrichment.Learn = mode, true
				c := dialTo(b, o)
				line := bigCall(size)
				c.ask(b, line)
				b.ReportAllocs()
				for b.Loop() {
					c.ask(b, line)
				}
			})
		}
	}
}

// BenchmarkPlan measures a plan of 100 steps at a server that answers at once, which is almost
// only the cost of planning.
func BenchmarkPlan(b *testing.B) {
	for _, after := range []string{"nothing", "the step before"} {
		b.Run("each waits for "+after, func(b *testing.B) {
			up := child(b, mcptest.Options{Name: "one", Results: map[string]string{"big": `{"content":[{"type":"text","text":"done"}]}`}})
			o := stored(b, []valuemodel.Rule{reading("one/big", 0)}, up)
			o.Plans = planSettings(proxy.Plans{Enabled: true, Limits: plan.Limits{Depth: 100}})
			c := dialTo(b, o)
			var steps []string
			for i := range 100 {
				on := ""
				if i > 0 && after != "nothing" {
					on = fmt.Sprintf(`,"depends_on":["s%d"]`, i-1)
				}
				steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"big","arguments":{"n":%d}%s}`, i, i, on))
			}
			line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"execute_tool_plan","arguments":{"steps":[%s]}}}`+"\n", strings.Join(steps, ","))
			c.ask(b, line)
			b.ReportAllocs()
			for b.Loop() {
				c.ask(b, line)
			}
		})
	}
}

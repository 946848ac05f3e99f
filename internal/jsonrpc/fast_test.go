package jsonrpc_test

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// These benchmarks compare each fast path of the package with the code it replaces. A fast
// path that does not win is removed.

// BenchmarkFastWrite writes one line after another to a peer that reads each.
func BenchmarkFastWrite(b *testing.B) {
	for _, m := range messages()[:3] {
		for _, path := range []struct {
			name string
			out  func(*os.File) io.Writer
		}{
			{"raw", func(f *os.File) io.Writer { return jsonrpc.NewPipe(f) }},
			{"direct", func(f *os.File) io.Writer { return f }},
			{"goroutine", func(f *os.File) io.Writer { return struct{ io.WriteCloser }{f} }},
		} {
			b.Run(m.name+"/"+path.name, func(b *testing.B) {
				from, to, err := os.Pipe()
				if err != nil {
					b.Fatal(err)
				}
				defer from.Close()
				lines := bufio.NewReaderSize(from, 2<<20)
				w := jsonrpc.NewWriter(path.out(to))
				defer w.Close()
				b.SetBytes(int64(len(m.raw)))
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Send(m.raw); err != nil {
						b.Fatal(err)
					}
					if _, err := lines.ReadSlice('\n'); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFastRead compares a released line with a copied one.
func BenchmarkFastRead(b *testing.B) {
	for _, m := range messages()[:3] {
		for name, next := range map[string]func(*jsonrpc.Reader) error{
			"pooled": func(r *jsonrpc.Reader) error {
				line, err := r.Borrow()
				line.Release()
				return err
			},
			"copied": func(r *jsonrpc.Reader) error {
				_, err := r.Next()
				return err
			},
		} {
			b.Run(m.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(m.raw)))
				b.ReportAllocs()
				r := jsonrpc.NewReader(&endless{line: append(bytes.Clone(m.raw), '\n')}, 0)
				for b.Loop() {
					if err := next(r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFastAnswer builds a response with the client's id in place and as a copy.
func BenchmarkFastAnswer(b *testing.B) {
	for _, m := range messages()[:3] {
		for _, inPlace := range []bool{true, false} {
			b.Run(m.name+map[bool]string{true: "/in place", false: "/anew"}[inPlace], func(b *testing.B) {
				r := jsonrpc.NewReader(&endless{line: append(bytes.Clone(m.raw), '\n')}, 0)
				b.SetBytes(int64(len(m.raw)))
				b.ReportAllocs()
				for b.Loop() {
					line, err := r.Borrow()
					if err != nil {
						b.Fatal(err)
					}
					answer, err := jsonrpc.Parse(line.Line)
					if err != nil {
						b.Fatal(err)
					}
					if inPlace {
						answer.Buffer = line
					}
					answer.Reframe([]byte("1000000001"), answer.Result)
					line.Release()
				}
			})
		}
	}
}

// BenchmarkFastWalk finds a member after a long one, by skipping and by scanning.
func BenchmarkFastWalk(b *testing.B) {
	for _, m := range messages()[:4] {
		b.Run(m.name+"/skipped", func(b *testing.B) {
			for b.Loop() {
				jsonrpc.Get(m.raw, "no such")
			}
		})
		b.Run(m.name+"/scanned", func(b *testing.B) {
			for b.Loop() {
				jsonrpc.Valid(m.raw)
			}
		})
	}
}

package front_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
)

func TestTruncatedInput(t *testing.T) {
	const cut = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"input ended inside a message"}}`
	for name, test := range map[string]struct {
		input string
		want  []string // in any order
	}{
		"inside a message":   {`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":2,"meth`, []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, cut}},
		"without a line end": {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{cut}},
		"nothing":            {"", nil},
	} {
		var out bytes.Buffer
		if err := front.ServeStdio(t.Context(), strings.NewReader(test.input), &out, "", front.Options{NewSession: newServer().begin, DrainTimeout: time.Minute}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := slices.Sorted(strings.Lines(out.String()))
		if want := strings.Join(test.want, "\n"); strings.TrimSpace(strings.Join(got, "")) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Calls that are cut off after the end of the input are still answered, also if they are cut off at once.
func TestCutOffCallsAreAnswered(t *testing.T) {
	for drainTimeout, delay := range map[time.Duration]time.Duration{time.Minute: 2 * time.Second, 0: 50 * time.Millisecond} {
		bubble.Test(t, func(t *testing.T) {
			out, to := io.Pipe() // as slow as its reader
			read := make(chan string)
			go func() {
				time.Sleep(delay)
				all, _ := io.ReadAll(out)
				read <- string(all)
			}()
			input := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"wait"}` + "\n")
			if err := front.ServeStdio(t.Context(), input, to, "", front.Options{NewSession: newServer().begin, DrainTimeout: drainTimeout}); err != nil {
				t.Error(err)
			}
			to.Close()
			if got, want := <-read, `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A call that is open when the input ends has time to finish.
func TestOpenCallsAreDrained(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, began := newServer(), time.Now()
		go func() {
			<-s.waiting
			time.Sleep(10 * time.Second)
			close(s.sessions[0].gate)
		}()
		input := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"wait"}` + "\n")
		if err := front.ServeStdio(t.Context(), input, io.Discard, "", front.Options{NewSession: s.begin, DrainTimeout: time.Minute}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the session lasted for %v, want 10 s", took)
		}
	})
}

// A request is repeated only the first time that its id is used.
func TestRepeatedRequest(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"
	s := newServer()
	input := strings.NewReader(ping + ping + `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n")
	if err := front.ServeStdio(t.Context(), input, io.Discard, "", front.Options{NewSession: s.begin, DrainTimeout: time.Minute, Replayed: []string{"1"}}); err != nil {
		t.Error(err)
	}
	if got := s.sessions[0].heard; !slices.Equal(got, []string{"repeated 1"}) {
		t.Errorf("got %q", got)
	}
}

// A client that ends without reading its last answers is no error, but answers that cannot be written are.
func TestStdioClientEnds(t *testing.T) {
	for _, cause := range []error{syscall.EPIPE, syscall.ENOSPC} {
		out := writerFunc(func([]byte) (int, error) { return 0, cause })
		in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
		err := front.ServeStdio(t.Context(), in, out, "", front.Options{NewSession: newServer().begin, DrainTimeout: time.Minute})
		if gone := cause == syscall.EPIPE; gone && err != nil || !gone && !errors.Is(err, cause) {
			t.Errorf("%v: got %v", cause, err)
		}
	}
}

// The session ends with the client's output, even if its input stays open: no answer can reach the client.
func TestBrokenOutput(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		in, to := io.Pipe()
		defer to.Close()
		go io.WriteString(to, `{"jsonrpc":"2.0","id":1,"method":"wait"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n")
		out := writerFunc(func([]byte) (int, error) { return 0, syscall.EPIPE })
		if err := front.ServeStdio(t.Context(), in, out, "", front.Options{NewSession: newServer().begin, DrainTimeout: time.Minute}); err != nil {
			t.Error(err)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A line of 200 MB is refused without being held in memory.
func TestHugeLine(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	readers := []io.Reader{strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`)}
	for range 5 { // more than the limit of 4 MiB
		readers = append(readers, bytes.NewReader(chunk))
	}
	readers = append(readers, strings.NewReader(`"}}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n"))
	var out bytes.Buffer
	if err := front.ServeStdio(t.Context(), io.MultiReader(readers...), &out, "", front.Options{NewSession: newServer().begin, DrainTimeout: time.Minute, MaxMessage: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"message too long: more than the 4194304 bytes of max_message_bytes in [server]"}}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":{}}` + "\n"
	if out.String() != want {
		t.Errorf("got %.300q, want %q", out.String(), want)
	}
}

// Invalid lines and elements of a batch are refused one by one, with their ids where these can
// be parsed.
func TestLines(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
	const pong = `{"jsonrpc":"2.0","id":%d,"result":{}}`
	for name, test := range map[string]struct {
		version, input string
		want           []string // responses in any order, after the response to initialize
	}{
		"messages":             {handshake, fmt.Sprintf(ping+"\n"+ping, 1, 2), []string{fmt.Sprintf(pong, 1), fmt.Sprintf(pong, 2)}},
		"blank lines":          {handshake, "  \t\n\r\n \r\n" + fmt.Sprintf(ping, 1), []string{fmt.Sprintf(pong, 1)}},
		"notification":         {handshake, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil},
		"cut":                  {handshake, `{"jsonrpc":"2.0","id":3,`, []string{`"id":3,"error":{"code":-32700`}},
		"batch":                {"2025-03-26", fmt.Sprintf("["+ping+`,{"id":7},`+ping+"]", 1, 2), []string{fmt.Sprintf(pong, 1), fmt.Sprintf(pong, 2), `"id":7,"error":{"code":-32600`}},
		"empty batch":          {"2025-03-26", "[]", []string{`"id":null,"error":{"code":-32600`}},
		"batch in a batch":     {"2025-03-26", fmt.Sprintf("[["+ping+"]]", 1), []string{`"id":null,"error":{"code":-32600`}},
		"no batches":           {handshake, fmt.Sprintf("["+ping+"]", 1), []string{`"id":null,"error":{"code":-32600`}},
		"stateless":            {handshake, mcptest.ModernBody("4", "tools/list", "", "{}"), []string{`"id":4,"result":{"tools":[]}`}},
		"stateless, incapable": {handshake, mcptest.ModernBody("4", "tools/list", "", "7"), []string{`"id":4,"error":{"code":-32602`}},
		"stateless, unknown":   {handshake, strings.Replace(mcptest.ModernBody("4", "tools/list", "", "{}"), stateless, "2999-01-01", 1), []string{`"id":4,"error":{"code":-32022`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			input := strings.NewReader(initialize(test.version) + "\n" + test.input + "\n")
			if err := front.ServeStdio(t.Context(), input, &out, "", front.Options{NewSession: newServer().begin, DrainTimeout: time.Minute}); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 1+len(test.want) {
				t.Fatalf("got %q, want %d lines", lines, 1+len(test.want))
			}
			for _, want := range test.want {
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, want) }) {
					t.Errorf("got %q, want %s among it", lines, want)
				}
			}
		})
	}
}

// A client that does not read gets all responses later, but only as many notifications as the
// backlog holds. Until it reads, no more of its requests are accepted.
func TestStdioBackPressure(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newServer()
		in, toFront := io.Pipe()
		fromFront, out := io.Pipe()
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			ended <- front.ServeStdio(ctx, in, out, "", front.Options{NewSession: s.begin})
		}()
		io.WriteString(toFront, `{"jsonrpc":"2.0","id":1,"method":"wait"}`+"\n")
		<-s.waiting
		n := s.sessions[0]
		note := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"n","params":{"fill":%q}}`, strings.Repeat("x", 1<<20))
		sent := 0
		for range 20 {
			if n.client.Out.Send(note) == nil {
				sent++
			}
		}
		if sent < 8 || sent > 10 {
			t.Errorf("%d notifications of 1 MiB were accepted, want as many as the backlog holds", sent)
		}
		close(n.gate)
		io.WriteString(toFront, `{"jsonrpc":"2.0","id":2,"method":"ping"}`+"\n") // the last message accepted
		blocked := make(chan struct{})
		go func() {
			io.WriteString(toFront, strings.Repeat("x", 1<<20))
			close(blocked)
		}()
		synctest.Wait()
		select {
		case <-blocked:
			t.Error("a request of a client that does not read was accepted")
		default:
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		fromFront.Close()
		in.Close()
		if cause := context.Cause(n.ctx); cause != front.ErrShutdown {
			t.Errorf("the session ended with %v", cause)
		}
	})
}

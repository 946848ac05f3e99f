package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// pipeClient returns a client of serve, which runs until the test ends.
func pipeClient(t *testing.T, serve func(in io.Reader, out io.Writer) error) *stdioClient {
	t.Helper()
	// Pipes of the system, as they hold more than one message: a client does not read while it
	// fills its window.
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		err := serve(in, out)
		out.Close()
		in.Close()
		done <- err
	}()
	c := newStdioClient(to, from)
	t.Cleanup(func() {
		c.close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		from.Close()
	})
	return c
}

// answer writes s, with the request's id in place of each ID.
func answer(out io.Writer, line, s string) {
	id, _ := idOf([]byte(line))
	fmt.Fprintf(out, "%s\n", strings.ReplaceAll(s, "ID", fmt.Sprint(id)))
}

func TestStdioClientDrivesTheUpstream(t *testing.T) {
	c := pipeClient(t, serveUpstream)
	names, err := handshake(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, window := range []int{1, 7, 32} {
		call := blobCall(names.blob, 3000)
		length, err := prove(c, call)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.drive(load{call: call, window: window, count: 100, length: length})
		if err != nil {
			t.Fatal(err)
		}
		// The last call begins with the answer number 100-window.
		if len(s.latencies) != 100 || s.timely != 100-window {
			t.Errorf("%d in flight: got %d answers, %d timely, want 100 and %d", window, len(s.latencies), s.timely, 100-window)
		}
		if sum := total(s.latencies); window == 1 && sum > s.whole {
			t.Errorf("got sequential calls that took %s of %s, want no more than the whole", sum, s.whole)
		}
	}
}

func total(latencies []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range latencies {
		sum += d
	}
	return sum
}

// Each answer counts for its own call, in any order of the answers. Other messages count for none.
func TestStdioClientTakesAnswersInAnyOrder(t *testing.T) {
	const batch = 8
	c := pipeClient(t, func(in io.Reader, out io.Writer) error {
		var lines []string
		for s := bufio.NewScanner(in); s.Scan(); {
			if lines = append(lines, s.Text()); len(lines) < batch {
				continue
			}
			slices.Reverse(lines)
			fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
			fmt.Fprintln(out, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			for _, line := range lines {
				answer(out, line, `{"jsonrpc":"2.0","result":{},"id":ID}`)
			}
			lines = nil
		}
		return nil
	})
	s, err := c.drive(load{call: sleepCall("sleep", 0), window: batch, count: batch})
	if err != nil || len(s.latencies) != batch {
		t.Fatalf("got %d answers, %v, want %d", len(s.latencies), err, batch)
	}
	// The calls are answered in reverse order, so each waits longer than the one after it.
	if !slices.IsSorted(s.latencies) {
		t.Errorf("got %v, want the first answer for the last call", s.latencies)
	}
}

func TestStdioClientNoticesWrongAnswers(t *testing.T) {
	for _, tc := range []struct{ name, answer, want string }{
		{"too short", `{"id":ID,"result":{}}`, "want 40"},
		{"twice", `{"jsonrpc":"2.0","id":ID,"result":{},"x":1}` + "\n" + `{"jsonrpc":"2.0","id":ID,"result":{},"x":1}`, "not in flight"},
		{"never asked", `{"jsonrpc":"2.0","id":4000000000,"result":{}}`, "not in flight"},
		{"gone", "", "EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := pipeClient(t, func(in io.Reader, out io.Writer) error {
				for s := bufio.NewScanner(in); s.Scan(); {
					if tc.answer == "" {
						return nil
					}
					answer(out, s.Text(), tc.answer)
				}
				return nil
			})
			l := load{call: sleepCall("sleep", 0), window: 1, count: 3}
			if tc.name == "too short" {
				l.length = 40
			}
			if _, err := c.drive(l); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A proxy may answer with an event stream, create a session, and prefix the names of tools.
func TestHTTPClientReadsEventsAndKeepsTheSession(t *testing.T) {
	result := map[string]string{
		"initialize": `{}`,
		"tools/list": `{"tools":[{"name":"bench__blob"},{"name":"bench__sleep"}]}`,
		"tools/call": `{"content":[{"type":"text","text":"` + text(2000) + `"}]}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct{ Method string }
		if err := errors.Join(err, json.Unmarshal(body, &m)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		want := "s-1"
		if m.Method == "initialize" {
			want = ""
			w.Header().Set("Mcp-Session-Id", "s-1")
		}
		if got := r.Header.Get("Mcp-Session-Id"); got != want {
			http.Error(w, "session "+got, http.StatusNotFound)
			return
		}
		if result[m.Method] == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "id: 7\nevent: message\ndata: ")
		w.(http.Flusher).Flush()
		answer(w, string(body), `{"jsonrpc":"2.0","id":ID,"result":`+result[m.Method]+`}`)
		io.WriteString(w, "\n")
	}))
	defer s.Close()
	c := newHTTPClient(s.Listener.Addr().String(), "/mcp")
	defer c.close()
	names, err := handshake(c)
	if err != nil {
		t.Fatal(err)
	}
	if want := (tools{"bench__blob", "bench__sleep"}); names != want {
		t.Errorf("got %v, want %v", names, want)
	}
	call := blobCall(names.blob, 2000)
	length, err := prove(c, call)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.drive(load{call: call, window: 3, count: 9, length: length}); err != nil {
		t.Error(err)
	}
	if _, err := c.drive(load{call: call, window: 3, count: 9, length: length + 1}); err == nil {
		t.Error("got no error for answers of another length, want one")
	}
	one, err := c.drive(load{call: call, window: 1, count: 9})
	if sum := total(one.latencies); err != nil || sum == 0 || sum > one.whole {
		t.Errorf("got %v, sequential calls that took %s of %s, want no more than the whole", err, sum, one.whole)
	}
	c.session = "other"
	if _, err := c.drive(load{call: call, window: 1, count: 1}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v, want the status", err)
	}
}

func TestToolNames(t *testing.T) {
	for _, tc := range []struct {
		name, answer string
		ok           bool
	}{
		{"bare", `{"id":1,"result":` + toolList + `}`, true},
		{"one missing", `{"id":1,"result":{"tools":[{"name":"blob"}]}}`, false},
		{"refused", `{"id":1,"error":{"message":"no"}}`, false},
		{"another's", `{"id":1,"result":{"tools":[{"name":"my_blob"},{"name":"sleep"}]}}`, false},
	} {
		if got, err := toolNames([]byte(tc.answer)); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, %v, want ok %t", tc.name, got, err, tc.ok)
		}
	}
}

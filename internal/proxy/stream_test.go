package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/proxy"
)

// The deadline of a single read or write must not end a longer transfer.
func TestListenLastsAsLongAsItsClient(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{HTTP: front.HTTPOptions{SessionIdle: time.Minute}})
		defer stop()
		body, header := modern("5", "subscriptions/listen", "", "")
		listen := f.do(f.request(http.MethodPost, "/mcp", body, header...))
		begin := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, listen.Body)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Errorf("ended after %v: %v", time.Since(begin), err)
		case <-time.After(3 * time.Hour):
		}
		listen.Body.Close()
		<-ended
	})
}

func TestShutdownAnswersOpenStreams(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, _, stop := servePipes(t, proxy.Options{})
		id := f.open("/mcp", handshake)
		stream := f.do(f.request(http.MethodGet, "/mcp", "", "Mcp-Session-Id", id))
		body, header := modern("5", "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
		listen := f.do(f.request(http.MethodPost, "/mcp", body, header...))
		next := eventReader(listen.Body)
		if ack, err := next(); err != nil || !strings.Contains(ack, "notifications/subscriptions/acknowledged") {
			t.Fatalf("got %s (%v), want the acknowledgement", ack, err)
		}
		begin := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stop()
		}()
		if last, err := next(); err != nil || !strings.Contains(last, `"id":5,"result":{`) || !strings.Contains(last, "subscriptionId") {
			t.Errorf("got %s (%v), want the graceful answer", last, err)
		}
		if rest, err := next(); err != io.EOF {
			t.Errorf("got %s (%v), want the end", rest, err)
		}
		if rest, err := io.ReadAll(stream.Body); err != nil {
			t.Errorf("session stream: got %q, %v, want a clean end", rest, err)
		}
		<-ended
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		listen.Body.Close()
		stream.Body.Close()
	})
}

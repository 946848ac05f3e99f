package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// A request never uses a connection that has carried an exchange without a response body: a
// notification, the GET of the server's own stream, or a DELETE. net/http may reuse such a
// connection before it has noticed that the earlier request was cancelled.
func TestRequestsHaveConnectionsOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	carried := make(map[string]map[string]bool) // address of a client's connection → kinds of requests on it
	count := make(map[string]int)               // kind → number of requests
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, body := r.Method, []byte(nil)
		if r.Method == http.MethodPost {
			body, _ = io.ReadAll(r.Body)
		}
		m, _ := jsonrpc.Parse(body)
		if m.IsRequest() {
			kind = "request"
		} else if m.IsNotification() {
			kind = "notification"
		}
		mu.Lock()
		if carried[r.RemoteAddr] == nil {
			carried[r.RemoteAddr] = make(map[string]bool)
		}
		carried[r.RemoteAddr][kind] = true
		count[kind]++
		mu.Unlock()
		switch kind {
		case "request":
			w.Header().Set("Mcp-Session-Id", "s1")
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"site","version":"1"}}}`, m.ID)
		case "GET":
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer site.Close()
	u := upstream.New(upstream.Spec{Name: "web", URL: site.URL, StartTimeout: time.Minute}, upstream.Quiet(upstream.Options{}))
	for range 3 { // in sequence
		l := u.Attach(revision.Client{}, upstream.Listener{})
		for range 5 {
			if _, err := l.Call(t.Context(), l.Turn(), &upstream.Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)}); err != nil {
				t.Fatal(err)
			}
			l.Notify("notifications/roots/list_changed", nil)
		}
		l.Close()
	}
	u.Close()
	site.Close() // waits for its handlers
	for address, kinds := range carried {
		if kinds["request"] && len(kinds) > 1 {
			t.Errorf("connection from %s carried %v", address, kinds)
		}
	}
	if count["request"] < 3*6 || count["notification"] < 3 || count["DELETE"] != 3 {
		t.Errorf("got %v, want requests, notifications and a DELETE in each session", count)
	}
}

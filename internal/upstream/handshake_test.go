package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// starting is a process that exits at the first message, or answers the handshake of either era if it has a version.
type starting struct {
	c       *conn
	version string
	asked   string // the method of the first request
}

func (s *starting) send(_ context.Context, out outgoing) error {
	m, err := jsonrpc.Parse(out.line)
	if err != nil {
		return err
	}
	if m.IsNotification() {
		out.done()
		return nil
	}
	s.asked = m.Method
	answer, err := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-11-25","supportedVersions":["2026-07-28"],"serverInfo":{"name":"x","version":%q}}}`, out.id, s.version))
	if s.version == "" {
		go s.c.closed(errStopped)
	} else {
		go s.c.message(answer, 0)
	}
	return err
}

func (s *starting) close() {}

// A server is thought to exit on server/discover if it does so once and then answers initialize. That and the
// lack of a stateless revision hold for one version of it.
func TestServerThatExitsOnDiscover(t *testing.T) {
	type start struct {
		version string // "" means that it exits
		want    string // the method that it is sent
		legacy  bool   // afterwards
	}
	for name, starts := range map[string][]start{
		"it always does":     {{"", "server/discover", false}, {"1", "initialize", true}, {"1", "initialize", true}, {"2", "initialize", false}, {"", "server/discover", false}, {"2", "initialize", true}},
		"it had an accident": {{"1", "server/discover", false}, {"", "server/discover", false}, {"1", "initialize", false}, {"1", "server/discover", false}},
		"it has changed":     {{"", "server/discover", false}, {"1", "initialize", true}, {"", "initialize", true}, {"2", "server/discover", false}},
		"it was not ready":   {{"", "server/discover", false}, {"", "initialize", false}, {"", "server/discover", false}, {"1", "initialize", false}},
	} {
		t.Run(name, func(t *testing.T) {
			up := New(Spec{StartTimeout: time.Minute}, Quiet(Options{}))
			in := &instance{up: up, wake: make(chan struct{}, 1), client: up.spec.forServer(revision.Client{Version: revision.Latest})}
			for i, s := range starts {
				c := newConn(in)
				link := &starting{c: c, version: s.version}
				c.link = link
				if err := in.handshake(t.Context(), c); (err == nil) != (s.version != "") {
					t.Fatalf("start %d: got %v", i, err)
				}
				last := in.offer.Load() // whether its lists can be read or not
				if legacy := last != nil && last.Legacy; link.asked != s.want || legacy != s.legacy {
					t.Errorf("start %d: got %s, then %t; want %s, then %t", i, link.asked, legacy, s.want, s.legacy)
				}
			}
		})
	}
}

// With NoCapabilities, neither a request nor the handshake declares any of the capabilities that the client has.
func TestRequestWithoutCapabilities(t *testing.T) {
	client := revision.Client{Version: revision.Latest, Capabilities: json.RawMessage(`{"roots":{}}`)}
	for none, want := range map[bool]string{false: `{"roots":{}}`, true: "{}"} {
		bubble.Test(t, func(t *testing.T) {
			srv := mcptest.New(mcptest.Options{})
			u, _ := bubbledWith(t, srv.Handler(), Spec{NoCapabilities: none, StartTimeout: time.Minute}, Options{})
			l := u.Attach(revision.Client{Capabilities: client.Capabilities}, Listener{})
			defer l.Close()
			l.AwaitOffer(t.Context())
			if first := srv.Seen()[0]; !strings.Contains(first, `"capabilities":`+want) {
				t.Errorf("got %s, want the capabilities %s", first, want)
			}
		})
		bubble.Test(t, func(t *testing.T) {
			srv := mcptest.New(mcptest.Options{Era: "stateless"})
			u, _ := bubbledWith(t, srv.Handler(), Spec{NoCapabilities: none, StartTimeout: time.Minute}, Options{})
			l := u.Attach(client, Listener{})
			defer l.Close()
			if _, err := l.Call(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`), Client: &client}); err != nil {
				t.Fatal(err)
			}
			for _, seen := range srv.Seen() {
				if !strings.Contains(seen, `"io.modelcontextprotocol/clientCapabilities":`+want) {
					t.Errorf("got %s, want the capabilities %s", seen, want)
				}
			}
		})
	}
}

// A server that hangs in its handshake is asked in another way, or started anew, after a limited time.
func TestServerThatHangsInItsHandshake(t *testing.T) {
	for name, test := range map[string]struct {
		era   string
		hangs []string // requests that get no answer
		after time.Duration
		again int64 // how often it is started again
	}{
		"it does not answer what precedes its handshake": {"handshake", []string{"server/discover"}, discoverTimeout, 0},
		"it is slow at first, and has no handshake":      {"stateless", []string{"server/discover"}, discoverTimeout, 0},
		"it answers nothing at first":                    {"handshake", []string{"server/discover", "initialize"}, HandshakeFactor * time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				handler := mcptest.New(mcptest.Options{Era: test.era}).Handler()
				u, _ := bubbledWith(t, intercept(t, handler, func(_ http.ResponseWriter, r *http.Request, m jsonrpc.Message) (done bool) {
					n := int(requests.Add(1))
					if n > len(test.hangs) {
						return false
					}
					if m.Method != test.hangs[n-1] {
						t.Errorf("got the request %s, want %s", m.Method, test.hangs[n-1])
					}
					<-r.Context().Done()
					return true
				}), Spec{StartTimeout: time.Minute}, Options{})
				l := u.Attach(revision.Client{Version: revision.Latest}, Listener{})
				defer l.Close()
				began := time.Now()
				l.AwaitOffer(t.Context())
				if got, again := time.Since(began), u.Health().Restarts; got != test.after || again != test.again {
					t.Errorf("its lists were read after %v and %d restarts, want %v and %d", got, again, test.after, test.again)
				}
				if _, err := callEcho(t.Context(), l); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A server that is restricted to revisions of the handshake era, as mcp-go can be, refuses server/discover with
// an error of the stateless era. So does one that wants a capability that this client lacks, and others may have.
// One that has only other stateless revisions answers it.
func TestServerThatRefusesDiscover(t *testing.T) {
	for code, legacy := range map[int]bool{-32601: true, -32022: true, -32021: false, -32020: false, 0: false} {
		bubble.Test(t, func(t *testing.T) {
			s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { replyJSON(w, result(id)) }}
			u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Method") == "server/discover" {
					id := readMessage(t, r).ID
					if code == 0 {
						replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2999-01-01"]}}`, id))
						return
					}
					reply(w, 400, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"unsupported","data":{"supported":["2025-11-25"]}}}`, id, code))
					return
				}
				s.ServeHTTP(w, r)
			}), Spec{StartTimeout: time.Minute}, Options{})
			l := u.Attach(revision.Client{Version: revision.Latest}, Listener{})
			defer l.Close()
			if _, err := callEcho(t.Context(), l); err != nil {
				t.Errorf("%d: %v", code, err)
			}
			time.Sleep(time.Second)
			if last := u.LastOffer(); last == nil || last.Legacy != legacy || revision.Stateless(last.Version) {
				t.Errorf("%d: got the offer %v", code, last)
			}
		})
	}
}

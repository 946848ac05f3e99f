package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

const (
	note    = `{"jsonrpc":"2.0","method":"notifications/message"}`
	changed = `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`
)

// A server may use the id of its request again as soon as it has read the reply.
func TestQuestionIDUsedAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		replies := make(chan struct{}, 2)
		s := &replied{site: &site{t: t}}
		s.call = func(w http.ResponseWriter, r *http.Request, id string) {
			for _, method := range []string{"roots/list", "ask/more"} {
				emit(w, `data: {"jsonrpc":"2.0","id":1,"method":"`+method+`"}`+"\n\n")
				select {
				case <-replies:
				case <-r.Context().Done():
				}
			}
			emit(w, "data: "+result(id)+"\n\n")
		}
		s.reply = func() {
			replies <- struct{}{}
			time.Sleep(time.Second) // before the response to the reply
		}
		v := attach(t, s, Spec{})
		v.AwaitOffer(t.Context())
		v.heard.turn()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got := v.work(ctx); got != "{}" {
			t.Errorf("got %s", got)
		}
		v.heard.want(t, "asked roots/list", "asked ask/more")
		time.Sleep(2 * time.Second) // the responses to the replies
	})
}

// replied is a site that is told of replies before it responds to them.
type replied struct {
	*site
	reply func()
}

func (s *replied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if m, err := jsonrpc.Parse(body); err == nil && m.IsResponse() {
		s.reply()
	}
	s.site.ServeHTTP(w, r)
}

// Each server answers a call in a different way.
func TestAnswers(t *testing.T) {
	rpcError := func(id string) string {
		return `{"jsonrpc":"2.0",` + "\n" + `"id":` + id + `,"error":{"code":-32022,"message":"x"}}`
	}
	const failed = `{"code":-32022,"message":"x"}`
	tests := []struct {
		name  string
		serve func(w http.ResponseWriter, id string)
		want  string
		heard []string
	}{
		{"JSON", func(w http.ResponseWriter, id string) { replyJSON(w, result(id)) }, "{}", nil},
		{"JSON with a charset, chunked", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, result(id)[:10])
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, result(id)[10:])
		}, "{}", nil},
		{"JSON-RPC", func(w http.ResponseWriter, id string) { reply(w, 200, "application/json-rpc", result(id)) }, "{}", nil},
		{"pretty-printed JSON", func(w http.ResponseWriter, id string) {
			replyJSON(w, "\n{\r\n  \"jsonrpc\": \"2.0\",\n  \"id\": "+id+",\n  \"result\": {\n\"a\": 1}\n}\n")
		}, `{ "a": 1}`, nil},
		{"stream", func(w http.ResponseWriter, id string) {
			emit(w, "event: message\ndata: "+note+"\n\n: ping\n\n")
			emit(w, `data: {"jsonrpc":"2.0","id":`+id+`,"method":"roots/list"}`+"\n\n") // the ids of the server are independent of ours
			time.Sleep(time.Second)
			emit(w, "event: message\ndata: "+result(id)+"\n\n")
		}, "{}", []string{"heard notifications/message", "asked roots/list"}},
		{"stream with a pretty-printed message", func(w http.ResponseWriter, id string) {
			emit(w, "data: {\"jsonrpc\": \"2.0\",\r\ndata:  \"id\": "+id+",\ndata:  \"result\": {}}\n\n")
		}, "{}", nil},
		{"stream with other events, and rubbish", func(w http.ResponseWriter, id string) {
			emit(w, "event: heartbeat\ndata: {}\n\nid: 1\ndata:\n\ndata: hello\n\ndata: "+result(id)+"\n\n")
		}, "{}", []string{"garbage: " + why("hello")}},
		{"stream that says more", func(w http.ResponseWriter, id string) { emit(w, "data: "+result(id)+"\n\ndata: "+note+"\n\n") }, "{}",
			[]string{"own stream: notifications/message"}},
		{"JSON, a batch", func(w http.ResponseWriter, id string) { replyJSON(w, "["+note+",\n"+result(id)+"]") }, "{}",
			[]string{"heard notifications/message"}},
		{"stream with a batch", func(w http.ResponseWriter, id string) { emit(w, "data: ["+note+", 7,"+result(id)+"]\n\n") }, "{}",
			[]string{"heard notifications/message", "garbage: " + why("7")}},
		{"JSON, the id as a string", func(w http.ResponseWriter, id string) { replyJSON(w, result(`"`+id+`"`)) }, "{}", nil},
		{"stream, the id and the progress token as other numbers", func(w http.ResponseWriter, id string) {
			emit(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"`+id+`"}}`+"\n\ndata: "+result(id+".0")+"\n\n")
		}, "{}", []string{"heard notifications/progress"}},
		{"error with status 400", func(w http.ResponseWriter, id string) { reply(w, 400, "application/json", rpcError(id)) }, failed, nil},
		{"error with status 404 about the request", func(w http.ResponseWriter, id string) {
			reply(w, 404, "application/json", strings.Replace(rpcError(id), "-32022", "-32601", 1))
		}, `{"code":-32601,"message":"x"}`, nil},
		{"error with status 500", func(w http.ResponseWriter, id string) { reply(w, 500, "application/json", rpcError(id)) }, failed, nil},

		{"error without a message", func(w http.ResponseWriter, id string) {
			replyJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-1}}`)
		}, `{"code":-32603,"message":"an error without a text: {\"code\":-1}"}`, nil},
		{"error with a text as its code", func(w http.ResponseWriter, id string) {
			replyJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":"EFAIL","message":"x"}}`)
		}, `{"code":-32603,"message":"x"}`, nil},
		{"status 500", func(w http.ResponseWriter, id string) { reply(w, 500, "text/plain", "out of\n  order") },
			"status 500 Internal Server Error: out of order", nil},
		{"status 500 without end", func(w http.ResponseWriter, id string) {
			emit(w, "") // sends the head of an event stream
			hijack(w, "")
		}, "stream broke before its answer: unexpected EOF", []string{"gap"}},
		{"status 502 with HTML", func(w http.ResponseWriter, id string) { reply(w, 502, "text/html", strings.Repeat("é", 1000)) },
			"status 502 Bad Gateway: " + strings.Repeat("é", 98) + "…", nil},
		{"wrong content type", func(w http.ResponseWriter, id string) { reply(w, 200, "text/html", "<html>") },
			`status 200 OK, no answer, content type "text/html": <html>`, nil},
		{"accepted only", func(w http.ResponseWriter, id string) { w.WriteHeader(202) },
			`status 202 Accepted, no answer, content type ""`, nil},
		{"no JSON-RPC", func(w http.ResponseWriter, id string) { replyJSON(w, `{"id":1}`) },
			"status 200 OK, " + why(`{"id":1}`) + `: {"id":1}`, []string{"garbage: " + why(`{"id":1}`)}},
		{"another answer", func(w http.ResponseWriter, id string) { replyJSON(w, "[]") },
			"status 200 OK, not the answer to this request: []", nil},
		{"a batch of no messages", func(w http.ResponseWriter, id string) { replyJSON(w, "[7,8]") }, // only the first error, as there may be millions
			"status 200 OK, " + why("7") + ": [7,8]", []string{"garbage: " + why("7"), "garbage: " + why("8")}},
		{"cut body", func(w http.ResponseWriter, id string) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc")
		}, `status 200 OK, body broken off after 9 bytes: unexpected EOF: {"jsonrpc`, nil},
		{"too long", func(w http.ResponseWriter, id string) { replyJSON(w, strings.Repeat(" ", 1001)) },
			"status 200 OK, body broken off after 1001 bytes: message too long: more than the 1000 bytes of max_message_bytes in [server]", nil},
		{"too long, of unknown length", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, strings.Repeat(" ", 5000))
		}, "status 200 OK, body broken off after 1001 bytes: message too long: more than the 1000 bytes of max_message_bytes in [server]", nil},
		{"no answer in the stream", func(w http.ResponseWriter, id string) { emit(w, ": nothing\n\n") },
			"stream ended before its answer", []string{"gap"}},
		{"answer in the stream without a result", func(w http.ResponseWriter, id string) {
			emit(w, `data: {"jsonrpc":"2.0","id":`+id+"}\n\n")
		}, "its answer cannot be read: " + why(`{"jsonrpc":"2.0","id":1}`), []string{"garbage: " + why(`{"jsonrpc":"2.0","id":1}`)}},
		{"answer in the stream too long", func(w http.ResponseWriter, id string) {
			emit(w, "id: 1\n\n"+`data: {"jsonrpc":"2.0","id":`+id+`,"result":"`+strings.Repeat("x", 10_000)+"\"}\n\n") // would begin the resumed stream again
		}, "stream broke before its answer: message too long: more than the 1000 bytes of max_message_bytes in [server]", []string{"gap"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { tt.serve(w, id) }}, Spec{MaxMessage: 1000})
				v.AwaitOffer(t.Context())
				v.heard.turn()
				if got := v.work(t.Context()); strings.TrimLeft(got, " ") != tt.want && strings.Join(strings.Fields(got), " ") != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				synctest.Wait()
				v.heard.want(t, tt.heard...)
			})
		})
	}
}

// A status is reported even if its body never ends.
func TestErrorBodyWithoutEnd(t *testing.T) {
	for _, kind := range []string{"application/json", "text/plain"} {
		bubble.Test(t, func(t *testing.T) {
			v := attach(t, &site{t: t, call: func(w http.ResponseWriter, r *http.Request, _ string) {
				reply(w, 500, kind, "to be continued")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}}, Spec{})
			if got, want := v.work(t.Context()), "status 500 Internal Server Error: to be continued"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// No request is sent before the server has accepted notifications/initialized.
func TestNothingOvertakesInitialized(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		handler, held := mcptest.New(mcptest.Options{Name: "web"}).Handler(), make(chan struct{})
		var came atomic.Int32 // requests after it
		v := attach(t, intercept(t, handler, func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) (done bool) {
			if m.Method == "notifications/initialized" {
				<-held
			} else if m.Method != "initialize" {
				came.Add(1)
			}
			return false
		}), Spec{})
		answered := make(chan error, 1)
		v.Send(t.Context(), v.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`)}, func(_ Answer, err error) { answered <- err })
		synctest.Wait()
		if n := came.Load(); n > 0 {
			t.Errorf("%d requests were sent before initialized was accepted", n)
		}
		close(held)
		if err := <-answered; err != nil || came.Load() == 0 {
			t.Errorf("got %v after %d requests", err, came.Load())
		}
	})
}

// A server that is slow to accept notifications/initialized, or does not end its response, delays
// the handshake for a limited time only, and the notification is not cancelled.
func TestInitializedThatIsSlow(t *testing.T) {
	tests := map[string]struct {
		slow func(w http.ResponseWriter, r *http.Request)
		want time.Duration
	}{
		"before its status": {func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(20 * time.Second)
			if err := r.Context().Err(); err != nil {
				t.Error("the notification was cancelled")
			}
			w.WriteHeader(202)
		}, initializedWait},
		"after its status": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(202)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, headTimeout},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				handler := mcptest.New(mcptest.Options{Name: "web"}).Handler()
				v := attach(t, intercept(t, handler, func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) (done bool) {
					if done = m.Method == "notifications/initialized"; done {
						test.slow(w, r)
					}
					return done
				}), Spec{})
				began := time.Now()
				if _, err := callEcho(t.Context(), v.Lease); err != nil {
					t.Error(err)
				}
				if got := time.Since(began); got != test.want {
					t.Errorf("the first call took %v, want %v", got, test.want)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A session that ends does not wait for its server to accept notifications/initialized.
func TestEndBeforeInitializedIsDelivered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &site{t: t}
		v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") != "" {
				readMessage(t, r)
				<-r.Context().Done()
				return
			}
			s.ServeHTTP(w, r)
		}), Spec{})
		time.Sleep(time.Second)
		began := time.Now()
		if v.Close(); time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

func TestRedirects(t *testing.T) {
	for path, want := range map[string]string{
		"/same": "{}",
		"/get":  "status 302 Found, redirect to http://web.test not followed",
		"/away": "status 308 Permanent Redirect, redirect to http://other.test not followed",
		"/loop": "status 308 Permanent Redirect, redirect to http://web.test not followed",
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &site{t: t, call: func(w http.ResponseWriter, r *http.Request, id string) { replyJSON(w, result(id)) }}
			v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/new":
					if r.Header.Get("Authorization") == "" || r.Host != "web.test" {
						t.Errorf("got %s for %s with %v", r.Method, r.Host, r.Header)
					}
					s.ServeHTTP(w, r)
				case "/same":
					http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
				case "/get":
					http.Redirect(w, r, "/new", http.StatusFound)
				case "/away":
					http.Redirect(w, r, "http://other.test/secret-path", http.StatusPermanentRedirect)
				case "/loop":
					http.Redirect(w, r, "/loop", http.StatusPermanentRedirect)
				}
			}), Spec{URL: "http://web.test" + path, Header: http.Header{"Authorization": {"Bearer abcdef"}}})
			if got := v.work(t.Context()); !strings.HasSuffix(got, want) || len(got) > len("initialize: ")+len(want) {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
		})
	}
}

// Errors contain no secret that the proxy sends, even if the server repeats it in its response.
func TestSecretsAreNotInErrors(t *testing.T) {
	const token, key, query = "tok-1234567890", "key+/=xyz", "q%20secret"
	long := strings.Repeat("L", 3000) // such a token must be masked before the text is truncated
	header := http.Header{"Authorization": {"Bearer " + token}, "X-Api-Key": {key}, "X-Long": {long}}
	for _, status := range []int{200, 400, 401, 403, 404, 500, 0} {
		for _, sse := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				var serve http.Handler
				if status != 0 { // with status 0 there is no listener
					serve = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						all := fmt.Sprintln(r.Header.Get("X-Long"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), r.URL, r.URL.Query(), r.Header)
						w.Header().Set("WWW-Authenticate", `Bearer error="`+r.Header.Get("Authorization")+`"`)
						reply(w, status, "text/plain", all)
					})
				}
				v := attach(t, serve, Spec{URL: "http://web.test/?key=" + query, Header: header, SSE: sse})
				got := v.work(t.Context())
				for _, secret := range []string{token, key, query, "q secret", long[:20]} {
					if strings.Contains(got, secret) {
						t.Errorf("status %d: %q in %s", status, secret, got)
					}
				}
				if want := fmt.Sprint("status ", status); status != 0 && !strings.Contains(got, want) {
					t.Errorf("got %s, want the %s in it", got, want)
				}
			})
		}
	}
}

// When the server rejects the credentials, requests in flight may still be answered for a while.
func TestFailingLinkWaitsForAnswersUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		arrived, refused := make(chan struct{}), make(chan struct{})
		v := attach(t, &site{t: t, call: func(w http.ResponseWriter, r *http.Request, id string) {
			switch calls.Add(1) {
			case 1:
				arrived <- struct{}{}
				<-refused
				replyJSON(w, result(id))
			case 2:
				arrived <- struct{}{}
				<-r.Context().Done()
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		}}, Spec{})
		var all sync.WaitGroup
		outcomes := make([]string, 2)
		for i := range outcomes {
			all.Go(func() { outcomes[i] = v.work(t.Context()) })
			<-arrived
		}
		if got := v.work(t.Context()); !strings.HasPrefix(got, "status 401") {
			t.Errorf("got %s", got)
		}
		close(refused)
		all.Wait()
		if slices.Sort(outcomes); !strings.HasPrefix(outcomes[0], "cut off before its answer: status 401") || outcomes[1] != "{}" {
			t.Errorf("got %q", outcomes)
		}
	})
}

// A server that rejects the credentials is asked again after a long pause only, on either transport. Then
// it is used, if it accepts them.
func TestAuthRequired(t *testing.T) {
	for _, spec := range []Spec{{}, {SSE: true}} {
		for _, status := range []int{401, 403} {
			bubble.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				var accepts atomic.Bool
				server := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { replyJSON(w, result(id)) }}
				v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if accepts.Load() {
						server.ServeHTTP(w, r)
						return
					}
					requests.Add(1)
					w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="x"`)
					w.WriteHeader(status)
				}), spec)
				for range 3 {
					if got := v.work(t.Context()); !strings.Contains(got, "the server wants credentials: set Authorization in headers") {
						t.Errorf("SSE %v, %d: got %s", spec.SSE, status, got)
					}
					time.Sleep(deniedWait)
				}
				if n := requests.Load(); n < 2 || n > 4 {
					t.Errorf("SSE %v, %d: got %d requests, want one per %v", spec.SSE, status, n, deniedWait)
				}
				if spec.SSE {
					return // the server answers the other transport
				}
				accepts.Store(true)
				time.Sleep(2 * deniedWait)
				if got := v.work(t.Context()); got != "{}" {
					t.Errorf("%d: got %s from a server that accepts the credentials", status, got)
				}
			})
		}
	}
}

// After a change of the network all connections may be dead: once a call was given up, the next one gets a new
// connection, not another idle one, whether its answer had begun or not.
func TestNewConnectionAfterATimeout(t *testing.T) {
	for _, begun := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			hang := make(chan struct{})
			defer close(hang)
			u, dials := bubbledWith(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) {
				if calls.Add(1) == 3 {
					if begun {
						emit(w, "")
					}
					<-hang
					return
				}
				time.Sleep(time.Second) // so that the first two have a connection each
				replyJSON(w, result(id))
			}}, Spec{StartTimeout: time.Minute}, Options{})
			v := visitor{u.Attach(revision.Client{}, Listener{}), new(diary)}
			defer v.Close()
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { v.work(t.Context()) })
			}
			both.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			v.work(ctx)
			time.Sleep(10 * time.Second)
			before := len(dials())
			if got := v.work(t.Context()); got != "{}" || len(dials()) != before+1 {
				t.Errorf("answer begun %v: got %s over %d new connections, want one", begun, got, len(dials())-before)
			}
		})
	}
}

func TestServerThatHangsUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hijack(w, "") }), Spec{})
		if got, want := v.work(t.Context()), "initialize: the server closed the connection without an answer"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestProxyThatCannotBeReached(t *testing.T) {
	u := New(Spec{
		Name: "web", URL: "http://web.test/mcp", StartTimeout: time.Minute,
		Proxy: func(*url.URL) (*url.URL, error) { return url.Parse("http://proxy.test:3128") },
	}, Quiet(Options{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }}))
	defer u.Close()
	v := visitor{u.Attach(revision.Client{}, Listener{}), new(diary)}
	defer v.Close()
	if got, want := v.work(t.Context()), "initialize: the HTTP proxy in HTTPS_PROXY or HTTP_PROXY cannot be reached: no route"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHandshakeResultThatCannotBeUsed(t *testing.T) {
	for result, want := range map[string]string{
		`"welcome"`:                        "initialize: its result is not an object",
		`{"protocolVersion":"1999"}`:       `initialize: server speaks revision "1999", want one of 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05`,
		`{"protocolVersion":"2026-07-28"}`: `initialize: server speaks revision "2026-07-28", want one of 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05`,
	} {
		bubble.Test(t, func(t *testing.T) {
			answer := func(context.Context, jsonrpc.Message) []byte { return []byte(result) }
			v := attach(t, mcptest.New(mcptest.Options{Answer: answer}).Handler(), Spec{})
			if got := v.work(t.Context()); got != want {
				t.Errorf("%s: got %s, want %s", result, got, want)
			}
		})
	}
}

// Once the server has answered, 403 concerns one request only.
func TestForbiddenLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(403) }}
		v := attach(t, s, Spec{})
		for range 2 {
			if got := v.work(t.Context()); got != "status 403 Forbidden" {
				t.Errorf("got %s", got)
			}
		}
		synctest.Wait()
		if n := len(s.requests()); n != 5 { // includes one handshake, and one GET for the server's own stream
			t.Errorf("got %d requests", n)
		}
	})
}

// The first POST shows whether the endpoint supports streamable HTTP. If not, HTTP+SSE is tried.
func TestOlderTransport(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		for _, body := range []string{"", "no such page", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`} {
			bubble.Test(t, func(t *testing.T) {
				older := mcptest.NewPuppet().SSE()
				v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && r.URL.Path == "/mcp" {
						reply(w, status, "application/json", body)
						return
					}
					older.ServeHTTP(w, r)
				}), Spec{})
				if _, err := v.Call(t.Context(), v.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"rest"}`)}); err != nil {
					t.Errorf("%d %q: %v", status, body, err)
				}
			})
		}
	}
}

func TestSessionHeaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &site{t: t}
		s.call = func(w http.ResponseWriter, r *http.Request, id string) {
			w.Header().Set("Mcp-Session-Id", "s2") // ignored outside of the handshake
			h := r.Header
			if fmt.Sprint(h["X-Mine"]) != "[a b]" || h.Get("Accept") != "application/json, text/event-stream" || h.Get("Content-Type") != "application/json" {
				t.Errorf("got %v", h)
			}
			replyJSON(w, result(id))
		}
		s.other = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }
		v := attach(t, s, Spec{Header: http.Header{"x-mine": {"a", "b"}, "Accept": {"nothing"}}})
		v.work(t.Context())
		v.work(t.Context())
		synctest.Wait() // until the stream was requested
		v.Close()
		const in = " s1 2025-11-25"
		want := []string{"POST", "POST" + in, "GET" + in, "POST" + in, "POST" + in, "DELETE" + in}
		if got := s.requests(); cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))) != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// If the server no longer knows the session, a new one is opened, and the call, which certainly
// did not run, is sent again.
func TestSessionLost(t *testing.T) {
	for name, forget := range map[string]func(w http.ResponseWriter, id string){
		"404": func(w http.ResponseWriter, _ string) { w.WriteHeader(404) },
		"404 with an error": func(w http.ResponseWriter, _ string) {
			reply(w, 404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
		},
		"404 with an error for another id": func(w http.ResponseWriter, id string) {
			reply(w, 404, "application/json", `{"jsonrpc":"2.0","id":1`+id+`,"error":{"code":-32000,"message":"gone"}}`)
		},
		"404 with an error for the request, about its session": func(w http.ResponseWriter, id string) {
			reply(w, 404, "application/json", `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32001,"message":"Unknown session"}}`)
		},
		"400": func(w http.ResponseWriter, _ string) {
			reply(w, 400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) {
					if calls.Add(1) == 1 {
						forget(w, id)
						return
					}
					replyJSON(w, result(id))
				}}
				v := attach(t, s, Spec{})
				if got := v.work(t.Context()); got != "{}" {
					t.Errorf("got %s", got)
				}
				v.heard.want(t, "session", "exit", "handshake")
				if slices.ContainsFunc(s.requests(), func(r string) bool { return strings.HasPrefix(r, "DELETE") }) {
					t.Error("a lost session was deleted")
				}
			})
		})
	}
}

// If each new session is lost too, the call fails after three attempts. A request that is isolated is not sent again.
func TestSessionLostEachTime(t *testing.T) {
	for isolated, want := range map[bool]int32{false: 3, true: 1} {
		bubble.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) {
				if calls.Add(1) > 9 {
					replyJSON(w, result(id))
					return
				}
				time.Sleep(2 * stableAfter) // else the server is down for a while after its second connection
				w.WriteHeader(404)
			}}, Spec{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			req := &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Isolated: isolated}
			if _, err := v.Call(ctx, v.Turn(), req); !errors.Is(err, errSessionLost) || calls.Load() != want {
				t.Errorf("isolated %v: got %v after %d attempts, want %d", isolated, err, calls.Load(), want)
			}
		})
	}
}

// When the caller's context ends, the response stream is closed.
func TestCancelDropsTheStream(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dropped := make(chan struct{})
		v := attach(t, &site{t: t, call: func(w http.ResponseWriter, r *http.Request, _ string) {
			emit(w, "data: "+note+"\n\n")
			<-r.Context().Done()
			close(dropped)
		}}, Spec{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := v.work(ctx); got != context.DeadlineExceeded.Error() {
			t.Errorf("got %s", got)
		}
		<-dropped
	})
}

// A caller's context usually ends as soon as the answer has arrived. The connection must be reused
// nevertheless; otherwise each call would open a new one.
func TestConnectionsAreUsedAgain(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, id string){
		"JSON": func(w http.ResponseWriter, id string) { replyJSON(w, result(id)) },
		"stream": func(w http.ResponseWriter, id string) {
			emit(w, "data: "+result(id)+"\n\n")
			time.Sleep(streamLinger / 2) // the stream ends after the caller has returned
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				u, dials := bubbled(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { answer(w, id) }}, time.Minute)
				l := u.Attach(revision.Client{}, Listener{})
				defer l.Close()
				for range 20 {
					ctx, cancel := context.WithCancel(t.Context())
					if _, err := callEcho(ctx, l); err != nil {
						t.Fatal(err)
					}
					cancel()
					time.Sleep(streamLinger)
				}
				if n := len(dials()); n > 3 {
					t.Errorf("got %d connections for 20 sequential calls", n)
				}
			})
		})
	}
}

// Servers of other implementations: with tools that send notifications and requests before they
// answer, and a tool that does not end.
func TestRealServers(t *testing.T) {
	s := server.NewMCPServer("talker", "1", server.WithToolCapabilities(true), server.WithLogging())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("notes"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": 7}); err != nil {
			return nil, err
		}
		<-time.After(50 * time.Millisecond) // mcp-go drops pending messages when the tool returns
		return mcp.NewToolResultText("done"), nil
	})
	s.AddTool(mcp.NewTool("waits"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for name, test := range map[string]struct {
		handler http.Handler
		path    string
		client  revision.Client
	}{
		"sessions":  {server.NewStreamableHTTPServer(s, server.WithStateful(true)), "", revision.Client{}},
		"stateless": {server.NewStreamableHTTPServer(s), "", revision.Client{Version: "2026-07-28"}},
		"older":     {server.NewSSEServer(s, server.WithUseFullURLForMessageEndpoint(false)), "/sse", revision.Client{}},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(test.handler)
			t.Cleanup(web.Close)
			u := New(Spec{Name: "web", URL: web.URL + test.path, SSE: test.path != "", StartTimeout: time.Minute}, Quiet(Options{}))
			t.Cleanup(u.Close)
			l := u.Attach(test.client, Listener{})
			l.AwaitOffer(t.Context())
			if _, ok := l.Offer().Find(Tools, "notes"); !ok {
				t.Error("the list of tools is incomplete")
			}
			answer, err := l.Call(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"notes"}`), Client: &test.client})
			if err != nil || !bytes.Contains(answer.Result, []byte("done")) {
				t.Errorf("got %s, %s, %v", answer.Result, answer.Error, err)
			}
			answer, err = l.Call(t.Context(), l.Turn(), &Request{Method: "no/such", Client: &test.client})
			if err != nil || string(jsonrpc.Get(answer.Error, "code")) != "-32601" {
				t.Errorf("got %s, %s, %v, want an unknown method", answer.Result, answer.Error, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			outcome := make(chan error, 1)
			l.Send(ctx, l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"waits"}`), Client: &test.client}, func(_ Answer, err error) { outcome <- err })
			cancel()
			if err := <-outcome; !errors.Is(err, context.Canceled) { // an unsentError, if there was no connection yet
				t.Errorf("got %v", err)
			}
		})
	}
}

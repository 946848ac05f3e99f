package upstream

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
)

// A stream that ends before the answer is resumed after its last event, as often as necessary.
func TestResume(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var id string
		var tries, polls int
		s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, request string) {
			id = request
			emit(w, "id: a\nretry: 1\ndata:\n\n")
		}, other: func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Last-Event-ID") {
			case "":
				w.WriteHeader(405)
			case "a":
				if polls++; polls%2 == 0 {
					w.WriteHeader(503) // one failure between others
					return
				} else if polls < 200 {
					emit(w, ": not yet\n\n")
					return
				}
				emit(w, "id: b\ndata: "+note+"\n\n")
			case "b":
				if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Accept") != "text/event-stream" {
					t.Errorf("got %s with %v", r.Method, r.Header)
				}
				if tries++; tries < maxResumes {
					w.WriteHeader(503) // for now
					return
				}
				emit(w, "data: "+result(id)+"\n\n")
			}
		}}
		v := attach(t, s, Spec{})
		if got := v.work(t.Context()); got != "{}" {
			t.Errorf("got %s", got)
		}
		v.heard.want(t, "heard notifications/message")
	})
}

func TestResumeHasAnEnd(t *testing.T) {
	tests := []struct {
		name  string
		get   func(w http.ResponseWriter)
		want  string
		tries int32
		ends  bool // whether the connection ends
	}{
		{"unknown event", func(w http.ResponseWriter) { w.WriteHeader(400) }, "was not resumed: status 400", 1, false},
		{"conflict", func(w http.ResponseWriter) { w.WriteHeader(409) }, "was not resumed: status 409", 5, false},
		{"no stream", func(w http.ResponseWriter) { replyJSON(w, "{}") }, "was not resumed: status 200", 1, false},
		{"out of order", func(w http.ResponseWriter) { w.WriteHeader(502) }, "was not resumed: status 502", maxResumes, false},
		{"session lost", func(w http.ResponseWriter) { w.WriteHeader(404) }, "session lost", 1, true},
		{"credentials", func(w http.ResponseWriter) { w.WriteHeader(401) }, "status 401", 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var tries, calls atomic.Int32
				v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, _ string) {
					calls.Add(1)
					emit(w, "id: a\nretry: 1\ndata:\n\n")
				}, other: func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Last-Event-ID") == "" {
						w.WriteHeader(405)
						return
					}
					tries.Add(1)
					tt.get(w)
				}}, Spec{})
				v.AwaitOffer(t.Context())
				_, err := v.Call(t.Context(), v.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`)})
				if err == nil || !strings.Contains(err.Error(), tt.want) || Rejected(err) {
					t.Errorf("got %v, want %q, which does not reject the call", err, tt.want)
				}
				if tries.Load() != tt.tries || calls.Load() != 1 { // one call, as it may have run
					t.Errorf("got %d tries after %d calls, want %d after one", tries.Load(), calls.Load(), tt.tries)
				}
				time.Sleep(time.Minute)
				heard := v.heard.turn()
				if !slices.Contains(heard, "gap") || slices.Contains(heard, "exit") != tt.ends {
					t.Errorf("got %q", heard)
				}
			})
		})
	}
}

// The lost session of a prefetch's stream does not end the connection, on which calls may be in flight.
func TestResumeOfAPrefetch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, _ string) {
			emit(w, "id: a\nretry: 1\ndata:\n\n")
		}, other: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") == "" {
				w.WriteHeader(405)
				return
			}
			w.WriteHeader(404)
		}}, Spec{})
		v.AwaitOffer(t.Context())
		answer, err := v.Call(t.Context(), v.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"work"}`), Isolated: true})
		if err == nil || !strings.Contains(err.Error(), "session lost") || !answer.Sent {
			t.Errorf("got %+v, %v", answer, err)
		}
		time.Sleep(time.Minute)
		v.heard.want(t, "gap")
	})
}

func TestCancelEndsResuming(t *testing.T) {
	for _, opened := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, _ string) {
				emit(w, "id: a\nretry: 1\ndata:\n\n")
			}, other: func(w http.ResponseWriter, r *http.Request) {
				if opened {
					emit(w, ":\n\n")
				}
				<-r.Context().Done()
			}}, Spec{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got := v.work(ctx); got != context.DeadlineExceeded.Error() {
				t.Errorf("got %s", got)
			}
			time.Sleep(time.Minute)
			v.heard.want(t) // no gap: only the cancelled call could have missed anything
		})
	}
}

// The server's own stream is kept open. If events may have been lost, that is reported as a gap.
func TestListen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var gets int
		v := attach(t, &site{t: t, other: func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				return
			}
			if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
				t.Errorf("got %v", r.Header)
			}
			gets++
			if got, want := r.Header.Get("Last-Event-ID"), []string{"", "", "x", "x", "x", "", ""}; got != want[gets-1] {
				t.Errorf("request %d asks for what follows %q, want %q", gets, got, want[gets-1])
			}
			switch gets {
			case 1: // the stream ends before the first id, so events may be missed
				emit(w, "retry: 1\n\ndata: "+changed+"\n\nevent: heartbeat\ndata: {}\n\ndata: rubbish\n\n")
			case 2:
				emit(w, "id: x\ndata: "+note+"\n\n")
			case 3:
				w.WriteHeader(500)
			case 4: // resumed
				emit(w, "data: "+changed+"\n\n")
			case 5:
				w.WriteHeader(400) // the server no longer knows the id
			case 6: // an event that is too long is not asked for again
				emit(w, "id: y\ndata: "+changed+"\n\nid: z\ndata: "+strings.Repeat("x", 10_000)+"\n\n")
			case 7:
				emit(w, "data: "+changed+"\n\n")
				<-r.Context().Done()
			}
		}}, Spec{MaxMessage: 1000})
		time.Sleep(time.Minute)
		v.heard.want(t, "list_changed", "garbage: "+why("rubbish"), "gap",
			"gap", "own stream: notifications/message",
			"list_changed", "gap", "gap",
			"list_changed", "garbage: message too long: more than the 1000 bytes of max_message_bytes in [server]", "gap", "gap", "list_changed")
	})
}

// A server need not have a stream of its own. No response to the GET ends the connection.
func TestListenWhereThereIsNoStream(t *testing.T) {
	for _, status := range []int{200, 400, 401, 403, 404, 405, 406, 409, 501} {
		bubble.Test(t, func(t *testing.T) {
			s := &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, id string) { replyJSON(w, result(id)) },
				other: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }}
			v := attach(t, s, Spec{})
			time.Sleep(time.Hour)
			if got := v.work(t.Context()); got != "{}" {
				t.Errorf("%d: got %s", status, got)
			}
			if n := len(s.requests()); n != 4 {
				t.Errorf("%d: got %d requests, want the handshake, one GET and a call", status, n)
			}
			v.heard.want(t)
		})
	}
}

// A server that does not know that its stream broke refuses another one for a while, with any status. The break is
// a gap, and so is the next stream, but not a refusal.
func TestListenWhileTheOldStreamCounts(t *testing.T) {
	for _, status := range []int{200, 400, 405, 409, 501} {
		bubble.Test(t, func(t *testing.T) {
			var gets atomic.Int32
			v := attach(t, &site{t: t, other: func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					return
				}
				switch gets.Add(1) {
				case 1:
					emit(w, ": open\n\n")
				case 10:
					emit(w, "data: "+changed+"\n\n")
					<-r.Context().Done()
				default:
					w.WriteHeader(status)
				}
			}}, Spec{})
			time.Sleep(time.Hour)
			v.heard.want(t, "gap", "gap", "list_changed")
		})
	}
}

// A server that closes its stream at once is not asked for it in a loop, whatever wait it sets.
// Streams that do not advance are opened ever more rarely.
func TestListenToAServerThatClosesAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		event  string // %d is the number of the stream
		open   time.Duration
		within time.Duration
		want   [2]int // at least and at most so many streams
	}{
		{"no ids", "retry: 0\ndata: " + note + "\n\n", 0, time.Minute, [2]int{8, 10}},
		{"no ids, for long", "retry: 0\ndata: " + note + "\n\n", 0, time.Hour, [2]int{100, 130}},
		{"the same id", "id: x\nretry: 0\ndata: " + note + "\n\n", 0, time.Minute, [2]int{8, 11}},
		{"new ids", "id: %d\nretry: 0\ndata: " + note + "\n\n", 0, time.Minute, [2]int{590, 601}},
		{"no event", ":\n\n", 0, time.Hour, [2]int{100, 130}},
		{"no event, open most of the time", ":\n\n", time.Minute, time.Hour, [2]int{58, 60}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var gets atomic.Int32
				attach(t, &site{t: t, other: func(w http.ResponseWriter, r *http.Request) {
					if n := gets.Add(1); n > 10_000 { // it would go on for ever, without time passing
						w.WriteHeader(http.StatusMethodNotAllowed)
					} else {
						emit(w, strings.ReplaceAll(tt.event, "%d", strconv.Itoa(int(n))))
						_ = sleep(r.Context(), tt.open)
					}
				}}, Spec{})
				time.Sleep(tt.within)
				if got := int(gets.Load()); got < tt.want[0] || got > tt.want[1] {
					t.Errorf("got %d streams in %v, want %d to %d", got, tt.within, tt.want[0], tt.want[1])
				}
			})
		})
	}
}

// A server that wants to be polled without a wait for the answer to a request is not polled in a
// loop.
func TestResumeWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const polls = 100
		var id string
		var came int
		v := attach(t, &site{t: t, call: func(w http.ResponseWriter, _ *http.Request, request string) {
			id = request
			emit(w, "id: a\nretry: 0\ndata:\n\n")
		}, other: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Last-Event-ID") == "" {
				w.WriteHeader(http.StatusMethodNotAllowed)
			} else if came++; came < polls {
				emit(w, ":\n\n")
			} else {
				emit(w, "data: "+result(id)+"\n\n")
			}
		}}, Spec{})
		began := time.Now()
		if got := v.work(t.Context()); got != "{}" {
			t.Errorf("got %s", got)
		}
		if took := time.Since(began); took < polls*time.Second/20 || took > polls*time.Second {
			t.Errorf("%d polls took %v", polls, took)
		}
	})
}

func TestListenFindsTheSessionLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var gets atomic.Int32
		v := attach(t, &site{t: t, other: func(w http.ResponseWriter, r *http.Request) {
			switch gets.Add(1) {
			case 1:
				emit(w, "id: 1\nretry: 1\ndata: "+note+"\n\n")
			case 2:
				w.WriteHeader(404)
			default:
				w.WriteHeader(405)
			}
		}}, Spec{})
		time.Sleep(time.Minute)
		v.heard.want(t, "own stream: notifications/message", "gap", "session")
	})
}

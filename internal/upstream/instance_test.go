package upstream

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// The first restart is immediate, later ones back off. Meanwhile each call fails without waiting.
func TestRestartsBackOff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		u, dials := bubbled(t, nil, time.Second)
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		synctest.Wait()
		if got := dials(); len(got) != 2 || got[1] != 0 {
			t.Errorf("got starts at %v, want two starts without a pause", got)
		}
		for range 100 {
			began := time.Now()
			answer, err := callEcho(t.Context(), l)
			var away *Unavailable
			if !errors.As(err, &away) || !strings.Contains(err.Error(), "connection refused") || answer.Sent {
				t.Fatalf("got sent %v beside %v, want the reason of the failure", answer.Sent, err)
			}
			if took := time.Since(began); took > 0 {
				t.Fatalf("the answer took %v", took)
			}
			time.Sleep(time.Second)
		}
		got := dials()
		if len(got) < 5 || len(got) > 25 {
			t.Errorf("got %d starts in 100 s: %v", len(got), got)
		}
		for i, at := range got[2:] {
			if wait := at - got[i+1]; wait < 250*time.Millisecond || wait > 2*time.Minute {
				t.Errorf("got a wait of %v before start %d", wait, i+3)
			}
		}
	})
}

// The lists of a server that is started again after a failed start are waited for.
func TestStartAfterAFailedOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &site{t: t}
		var starts atomic.Int64
		v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if starts.Add(1) <= 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			time.Sleep(2 * time.Second)
			s.ServeHTTP(w, r)
		}), Spec{})
		for v.AwaitOffer(t.Context()); starts.Load() <= 2; time.Sleep(time.Second / 10) { // until the third start has begun
		}
		if v.AwaitOffer(t.Context()); !v.Listed() || v.Problem() != nil {
			t.Errorf("got lists: %t, and the problem %v", v.Listed(), v.Problem())
		}
	})
}

// The reason why a server cannot be started is logged once, however many sessions retry.
func TestReasonIsLoggedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		u := New(Spec{Name: "missing", Command: Command{Path: "no-such-command", Env: []string{"PATH=/nowhere/bin"}}, StartTimeout: time.Second}, Quiet(Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}))
		for range 3 {
			defer u.Attach(revision.Client{}, Listener{}).Close()
		}
		time.Sleep(10 * time.Minute)
		u.Close()
		if got := logged.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "path=/nowhere/bin") {
			t.Errorf("got %q, want one error with the PATH", got)
		}
	})
}

// A server that keeps exiting is restarted at once if it has answered a client since its last
// start, and with backoff if it has not, even if it answers internal requests.
func TestRestartsAtOnceWhatAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := mcptest.New(mcptest.Options{Name: "web"})
		var starts, endAfter atomic.Int64
		u, _ := bubbled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			server.Handler().ServeHTTP(w, r)
			if r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == "" && starts.Add(1) <= endAfter.Load() {
				server.Forget() // the next request, which reads a list, ends the connection
			}
		}), time.Second)
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		began := time.Now()
		for range 20 {
			if _, err := callEcho(t.Context(), l); err != nil {
				t.Fatalf("after %d starts: %v", starts.Load(), err)
			}
			server.Forget() // the next call ends the connection
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("20 calls of a server that ended 19 times took %v", took)
		}
		starts.Store(0)
		endAfter.Store(100)
		callEcho(t.Context(), l)
		time.Sleep(100 * time.Second)
		if got := starts.Load(); got < 4 || got > 25 {
			t.Errorf("got %d starts in 100 s of a server that answered nothing", got)
		}
	})
}

// A server that ended after it had answered has no error when no session needs it any more, whether it has been restarted
// or is being restarted.
func TestIdleAfterAnEnd(t *testing.T) {
	for _, slow := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			server := mcptest.New(mcptest.Options{Name: "web"})
			var ended atomic.Bool
			u, _ := bubbled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if slow && ended.Load() && r.Header.Get("Mcp-Session-Id") == "" { // a restart
					io.Copy(io.Discard, r.Body) // its context ends with the connection only then
					<-r.Context().Done()
					return
				}
				server.Handler().ServeHTTP(w, r)
			}), time.Second)
			l := u.Attach(revision.Client{}, Listener{})
			callEcho(t.Context(), l)
			server.Forget()
			ended.Store(true)
			callEcho(t.Context(), l) // ends the connection
			l.Close()
			time.Sleep(time.Hour)
			if got := u.Health(); got.State != "idle" || got.Restarts != 1 || got.Error != "" {
				t.Errorf("slow %v: got %+v, want it idle without an error", slow, got)
			}
		})
	}
}

// A call waits for a starting server for StartTimeout, and the waits of queued calls do not add
// up.
func TestCallsWaitForTheStartTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		server := mcptest.New(mcptest.Options{Name: "web"}).Handler()
		u, _ := bubbled(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
				server.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		}), 10*time.Second)
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		began := time.Now()
		var all sync.WaitGroup
		for range 5 {
			turn := l.Turn()
			all.Go(func() {
				answer, err := l.Call(t.Context(), turn, &Request{Method: "tools/call", Params: []byte(`{"name":"echo"}`)})
				if !errors.Is(err, errStarting) || answer.Sent {
					t.Errorf("got sent %v beside %v, want an error that it is still starting", answer.Sent, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("five calls took %v, want 10s", took)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := callEcho(t.Context(), l)
			waiting <- err
		}()
		time.Sleep(5 * time.Second)
		close(release)
		if err := <-waiting; err != nil {
			t.Errorf("the call that waited: %v", err)
		}
	})
}

// Many list_changed notifications in a short time cause a single read of the lists.
func TestListsAreReadOnceInAQuietPeriod(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := mcptest.New(mcptest.Options{Name: "web", Tools: []string{`{"name":"one"}`}})
		u, _ := bubbled(t, server.Handler(), 10*time.Second)
		var mu sync.Mutex
		changed := 0
		l := u.Attach(revision.Client{}, Listener{Changed: func() {
			mu.Lock()
			defer mu.Unlock()
			changed++
		}})
		defer l.Close()
		l.AwaitOffer(t.Context())
		time.Sleep(time.Minute) // the effects of the start are over
		reads := func() (n int) {
			for _, m := range server.Seen() {
				if strings.Contains(m, `"tools/list"`) {
					n++
				}
			}
			return n
		}
		readsBefore, changedBefore := reads(), changed
		for range 50 { // 50 in half a second, without a change
			server.Announce("notifications/tools/list_changed", "{}")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := reads() - readsBefore; got < 1 || got > 3 {
			t.Errorf("got %d reads, want 1 to 3", got)
		}
		mu.Lock()
		if changed != changedBefore {
			t.Errorf("%d notifications of unchanged lists", changed-changedBefore)
		}
		mu.Unlock()
		server.SetTools(`{"name":"two"}`)
		server.Announce("notifications/tools/list_changed", "{}")
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if changed != changedBefore+1 {
			t.Errorf("%d notifications of a change, want 1", changed-changedBefore)
		}
		if _, ok := l.Offer().Find(Tools, "two"); !ok {
			t.Error("the offer did not change")
		}
	})
}

// A stray line of a connection that was live says nothing about the next start.
func TestStrayLineBeforeARestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mute atomic.Bool
		s := &site{t: t, other: func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				emit(w, "data: rubbish\n\n")
				<-r.Context().Done()
			}
		}}
		v := attach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if mute.Load() && r.Method == http.MethodPost {
				readMessage(t, r)
				<-r.Context().Done()
				return
			}
			s.ServeHTTP(w, r)
		}), Spec{})
		synctest.Wait()
		v.heard.want(t, "garbage: "+why("rubbish"))
		mute.Store(true)
		v.in.live().link.(*httpLink).end(errSessionLost, 0)
		synctest.Wait()
		if err := v.Problem(); err != nil {
			t.Errorf("got the problem %v", err)
		}
		if got, want := v.work(t.Context()), "still starting after 1m"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Rejected credentials end the connection. Its listen request, which never gets an answer, must
// not delay the next connection.
func TestListenDoesNotHoldAnEndingLink(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := mcptest.New(mcptest.Options{Name: "web", Era: "stateless"})
		u, _ := bubbled(t, server.Handler(), 10*time.Second)
		l := u.Attach(revision.Client{Version: "2026-07-28"}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		synctest.Wait() // the listen request is open
		began := time.Now()
		call := &Request{Method: "tools/call", Params: []byte(`{"name":"status","arguments":{"status":401}}`)}
		for range 2 {
			if _, err := l.Call(t.Context(), l.Turn(), call); !statusOf(err).denied {
				t.Errorf("got %v, want an error about the credentials", err)
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/revision"
)

// storing returns a store that records what it is given.
func storing(t *testing.T, heard *diary) Store {
	return Store{Save: func(data []byte) error {
		var stored storedOffer
		if err := json.Unmarshal(data, &stored); err != nil {
			t.Errorf("stored %q: %v", data, err)
			return err
		}
		heard.write(fmt.Sprintf("stored %d tools", len(stored.Lists[Tools])))
		return nil
	}}
}

// lister is a server with tools and prompts. The test provides the responses to tools/list.
type lister struct {
	*site
	reads atomic.Int32 // of the tools
	tools func(w http.ResponseWriter, r *http.Request, id string, read int32)
}

func (s *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.site.ServeHTTP(w, r)
		return
	}
	answer := func(id []byte, result string) {
		w.Header().Set("Mcp-Session-Id", "s1")
		replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
	}
	switch m := readMessage(s.t, r); m.Method {
	case "initialize":
		answer(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"lister","version":"1"}}`)
	case "tools/list":
		s.tools(w, r, string(m.ID), s.reads.Add(1))
	case "prompts/list":
		answer(m.ID, `{"prompts":[]}`)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func replyTools(w http.ResponseWriter, id string) {
	replyJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"tools":[{"name":"one"}]}}`)
}

// Lists that could not be read because the connection ended are neither given to a session nor
// stored.
func TestListsOfAnEndingConnection(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized} {
		bubble.Test(t, func(t *testing.T) {
			var heard diary
			release := make(chan struct{})
			u, _ := bubbledWith(t, &lister{site: &site{t: t}, tools: func(w http.ResponseWriter, _ *http.Request, id string, read int32) {
				if read == 1 {
					time.Sleep(time.Second) // a connection that ends at once with 401 is not restarted
					w.WriteHeader(status)
					return
				}
				<-release
				replyTools(w, id)
			}}, Spec{StartTimeout: time.Minute}, Options{Store: storing(t, &heard)})
			l := u.Attach(revision.Client{}, Listener{})
			defer l.Close()
			time.Sleep(30 * time.Second) // the second connection waits for the tools
			if heard.want(t); l.in.state.Load().listed {
				t.Errorf("%d: the tools are given as %v", status, l.Offer().Items(Tools))
			}
			close(release)
			l.AwaitOffer(t.Context())
			heard.want(t, "stored 1 tools")
			if _, ok := l.Offer().Find(Tools, "one"); !ok {
				t.Errorf("%d: got the tools %v", status, l.Offer().Items(Tools))
			}
		})
	}
}

// Tools that could not be read do not keep a session waiting, but nothing is stored until they
// have been read, whatever other list is read meanwhile.
func TestListsThatFail(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var heard diary
		began := time.Now()
		u, _ := bubbledWith(t, &lister{site: &site{t: t, other: func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				emit(w, ":\n\n")
				time.Sleep(listRetryDelay / 2)
				emit(w, `data: {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`+"\n\n")
				<-r.Context().Done()
			}
		}}, tools: func(w http.ResponseWriter, _ *http.Request, id string, read int32) {
			if read == 1 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			replyTools(w, id)
		}}, Spec{StartTimeout: time.Minute}, Options{Store: storing(t, &heard)})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		if took := time.Since(began); took > 0 {
			t.Errorf("the session waited for %v", took)
		}
		time.Sleep(listRetryDelay - 1)
		synctest.Wait()
		heard.want(t)
		if got := u.Health(); got.State != "ready" || !strings.Contains(got.Error, "tools/list: status 500") {
			t.Errorf("before the tools are read: got %+v", got)
		}
		time.Sleep(time.Minute)
		heard.want(t, "stored 1 tools")
		if got := u.Health(); got.State != "ready" || got.Error != "" {
			t.Errorf("after they were read: got %+v", got)
		}
	})
}

// The status of an upstream that starts again says why, whatever was wrong with its list of tools.
func TestHealthOfAnotherStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &lister{site: &site{t: t}, tools: func(w http.ResponseWriter, _ *http.Request, _ string, _ int32) {
			w.WriteHeader(http.StatusInternalServerError)
		}}
		var lost atomic.Bool
		u, _ := bubbledWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !lost.Load():
				s.ServeHTTP(w, r)
			case r.Header.Get("Mcp-Session-Id") != "":
				w.WriteHeader(http.StatusNotFound)
			default:
				readMessage(t, r)
				<-r.Context().Done()
			}
		}), Spec{StartTimeout: time.Minute}, Options{})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		lost.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = callEcho(ctx, l)
		if got := u.Health(); got.State != "starting" || !strings.Contains(got.Error, "session lost") {
			t.Errorf("got %+v", got)
		}
	})
}

// An empty cursor ends a list, as the reference clients have it.
func TestListEndsAtAnEmptyCursor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var heard diary
		u, _ := bubbledWith(t, &lister{site: &site{t: t}, tools: func(w http.ResponseWriter, _ *http.Request, id string, read int32) {
			replyJSON(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"tools":[{"name":"one"},{"name":"two"}],"nextCursor":""}}`)
		}}, Spec{StartTimeout: time.Minute}, Options{Store: storing(t, &heard)})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		synctest.Wait()
		heard.want(t, "stored 2 tools")
	})
}

// The pages of a list are bounded together: a server that ignores the cursor would fill the memory.
func TestListTooLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &lister{site: &site{t: t}, tools: func(w http.ResponseWriter, _ *http.Request, id string, read int32) {
			replyJSON(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"one","title":%q}],"nextCursor":"%d"}}`, id, strings.Repeat("x", 400), read))
		}}
		u, _ := bubbledWith(t, s, Spec{StartTimeout: time.Minute, MaxMessage: 1000}, Options{})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		if n := s.reads.Load(); n != 3 {
			t.Errorf("got %d requests, want 3", n)
		}
		if err := l.Problem(); err == nil || !strings.Contains(err.Error(), "all pages together: message too long: more than the 1000 bytes of max_message_bytes") {
			t.Errorf("got the problem %v", err)
		}
	})
}

// An item is found by its name, the last of several, and as fast among many as among few.
func TestFind(t *testing.T) {
	fastest := func(n int) time.Duration { // of several rounds
		stored := storedOffer{offerFormat, new(Offer)}
		for i := range n {
			stored.Lists[Tools] = append(stored.Lists[Tools], Item{Name: fmt.Sprint("tool", i), Raw: fmt.Append(nil, i)})
		}
		stored.Lists[Tools] = append(stored.Lists[Tools], Item{Name: "tool1", Raw: []byte("again")})
		data, err := json.Marshal(stored)
		if err != nil {
			t.Fatal(err)
		}
		offer, err := Store{Load: func() ([]byte, error) { return data, nil }}.LastOffer()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"tool0": "0", "tool1": "again", "tool": ""} {
			if got, ok := offer.Find(Tools, name); string(got.Raw) != want || ok != (want != "") {
				t.Errorf("%s: got %s, %v", name, got.Raw, ok)
			}
		}
		best := time.Hour
		for range 50 {
			began := time.Now()
			for range 100 {
				offer.Find(Tools, "tool0")
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	if few, many := fastest(10), fastest(20_000); many > 100*few { // a search of the list takes 2000 times as long
		t.Errorf("got %v for 100 times one of 20,000 tools, and %v for one of 10", many, few)
	}
}

// A list that is not answered names the key that bounds the wait.
func TestListNotAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		u, _ := bubbledWith(t, &lister{site: &site{t: t}, tools: func(_ http.ResponseWriter, r *http.Request, _ string, _ int32) { <-r.Context().Done() }},
			Spec{StartTimeout: time.Minute}, Options{})
		l := u.Attach(revision.Client{}, Listener{})
		defer l.Close()
		l.AwaitOffer(t.Context())
		if err := l.Problem(); err == nil || !strings.Contains(err.Error(), "not answered within 1m (start_timeout)") {
			t.Errorf("got the problem %v", err)
		}
	})
}

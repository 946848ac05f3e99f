package hook_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/call"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/hook"
)

// folderWorld is a folder whose one file is changed by a client's own tools, by commands that
// it leaves running, by its user between turns and by another client, and is read ahead and
// read through a real store, as the proxy does it.
type folderWorld struct {
	t         *testing.T
	r         *rand.Rand
	store     *dedup.Store
	ledger    *hook.Ledger
	exclusive func() bool
	client    *hook.Client
	version   atomic.Int64 // of the file
	uses      int
	turn      bool         // the model is at work
	blind     bool         // something was changed of which the report is still on its way
	running   atomic.Int64 // commands in the background
	beside    *hook.Client
	served    int   // answers that were read ahead
	told      int64 // the version when the end of a use was reported last

	mu   sync.Mutex
	what []string // has happened
}

const settle, writeSettle = 2 * time.Second, 60 * time.Second

// start is the daemon's, also after a crash: what it knew is lost.
func (w *folderWorld) start() {
	w.store = dedup.New(dedup.Options{MaxBytes: 1 << 20, WriteSettle: writeSettle, Settle: settle})
	local := call.Place{Domain: "local"}
	store := w.store
	w.ledger = hook.New(hook.Effects{
		Begin: func() hook.Write {
			p := store.RegisterWrite(call.Effect{Places: []call.Place{local}, Remote: true})
			p.Doubt()
			return p
		},
		Changed: func() { store.Invalidate(local) },
	})
	w.exclusive = w.ledger.Exclusive(folder)
	w.client = &hook.Client{Folder: folder, Session: "a", Again: w.client != nil, Prompted: func(string) {}}
	w.ledger.Enter(w.client)
	if w.beside != nil {
		w.ledger.Enter(w.beside)
	}
}

func (w *folderWorld) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what = append(w.what, fmt.Sprintf("%v: ", time.Now().Format("15:04:05.000"))+fmt.Sprintf(format, args...))
}

// pause lets time pass, mostly little.
func (w *folderWorld) pause(most time.Duration) {
	time.Sleep(time.Duration(w.r.Int64N(int64(most))))
	synctest.Wait()
}

// change changes the file.
func (w *folderWorld) change(who string) {
	w.note("%s writes %d", who, w.version.Add(1))
}

// hear has a report heard, as it is sent now or long ago.
func (w *folderWorld) hear(r daemon.Report, ago time.Duration) {
	r.Session, r.Folder, r.Sent = "a", folder, time.Now().Add(-ago).UnixMilli()
	w.note("%s %s %s %q, exclusive %v", r.Event, r.Tool, r.Use, r.Command, w.exclusive())
	w.ledger.Hear(&r)
}

// query reads the file; a lasting one is content with what others of its kind were answered.
func (w *folderWorld) query(lasting bool) dedup.Query {
	q := dedup.Query{
		Key: call.Key{Upstream: 1, Scope: "s", Tool: fmt.Sprint("read ", lasting), Arguments: "{}"}, Places: []call.Place{{Domain: "local"}},
		Reuse: dedup.Reuse{MaxAge: 30 * time.Second},
	}
	if lasting {
		q.Reuse.Freshness = 2 * time.Minute
	}
	return q
}

// fetch reads the file at some moment of its time.
func (w *folderWorld) fetch(before, after time.Duration) func(context.Context, *dedup.Flight) {
	return func(_ context.Context, f *dedup.Flight) {
		go func() {
			time.Sleep(before)
			version := w.version.Load()
			time.Sleep(after)
			f.Settle(fmt.Append(nil, version), false, true)
		}()
	}
}

func (w *folderWorld) span() time.Duration {
	return time.Duration(w.r.Int64N(int64(500 * time.Millisecond)))
}

// readAhead is the prefetch worker: it looks at the folder before it begins, and when it sends.
func (w *folderWorld) readAhead() {
	exclusive := w.exclusive
	if !exclusive() {
		return
	}
	w.note("reads ahead")
	wait, send := w.span(), w.fetch(w.span(), w.span())
	w.store.Prefetch(w.t.Context(), w.query(false), func(ctx context.Context, f *dedup.Flight) {
		go func() {
			time.Sleep(wait)
			if !exclusive() {
				f.Settle(nil, false, false)
				return
			}
			send(ctx, f)
		}()
	})
}

// read is a call of the client. What was read ahead must be the file as it is; where its tool has
// a freshness, at least as it was when a use was last said to have ended.
func (w *folderWorld) read() {
	if !w.turn || w.blind {
		return
	}
	for _, lasting := range []bool{false, true} {
		least := w.version.Load()
		if lasting {
			least = w.told
		}
		o := w.ask(lasting)
		if o.How == dedup.Fetched {
			continue
		}
		var version int64
		fmt.Sscan(string(o.Body), &version)
		w.note("is served %d of %d, lasting %v", version, least, lasting)
		if version < least {
			w.t.Fatalf("stale answer: got version %d of %d\n%s", version, least, w.tail())
		}
		if !lasting {
			w.served++
		}
	}
}

// ask makes a call.
func (w *folderWorld) ask(lasting bool) dedup.Outcome {
	done := make(chan dedup.Outcome, 1)
	w.store.Do(w.t.Context(), w.query(lasting), &dedup.Waiter{Done: func(o dedup.Outcome) { done <- o }}, w.fetch(w.span()/4, w.span()/4))
	return <-done
}

func (w *folderWorld) tail() (text string) {
	for _, line := range w.what[max(0, len(w.what)-25):] {
		text += line + "\n"
	}
	return text
}

// use is one use of a tool, with reads beside it.
func (w *folderWorld) use() {
	w.uses++
	id := fmt.Sprint(w.uses)
	tool, command := "Edit", ""
	if w.r.IntN(2) == 0 {
		tool, command = "Bash", "make"
	}
	say := func(event string) daemon.Report {
		return daemon.Report{Event: event, Tool: tool, Use: id, Command: command}
	}
	late := w.r.IntN(8) == 0
	if late {
		w.blind = true // until the report arrives nothing can be known
		w.change("a tool, reported late")
		time.Sleep(time.Second)
		w.hear(say("PreToolUse"), time.Second)
		w.blind = false
	} else {
		w.hear(say("PreToolUse"), 0)
	}
	if w.r.IntN(6) == 0 {
		time.Sleep(time.Duration(w.r.IntN(90)) * time.Second) // its user is asked, or it takes long
	}
	for range w.r.IntN(4) {
		w.pause(time.Second)
		if w.r.IntN(2) == 0 {
			w.change("a tool")
		}
		if w.r.IntN(2) == 0 {
			w.readAhead()
		}
		if w.r.IntN(2) == 0 {
			w.read()
		}
	}
	switch w.r.IntN(8) {
	case 0: // it was not permitted, or its end is never said; what it did it has done
	default:
		w.hear(say("PostToolUse"), 0)
		w.told = w.version.Load()
	}
}

// background is a command that goes on when its use is over, and changes the file until it ends.
func (w *folderWorld) background(left bool) {
	w.uses++
	r := daemon.Report{Event: "PreToolUse", Tool: "Bash", Use: fmt.Sprint(w.uses), Command: "make watch", Background: !left}
	if left {
		r.Command = "make watch &"
	}
	w.hear(r, 0)
	w.goOn(left)
	w.pause(time.Second)
	r.Event = "PostToolUse"
	w.hear(r, 0)
}

// goOn is a command that goes on. Its client says so, unless it was left running.
func (w *folderWorld) goOn(left bool) {
	lasts := 10 * time.Minute
	if !left {
		lasts = 2 * time.Minute
		w.running.Add(1)
		time.AfterFunc(lasts, func() { w.running.Add(-1) })
	}
	for range lasts / (30 * time.Second) {
		after := time.Duration(w.r.Int64N(int64(lasts)))
		time.AfterFunc(after, func() { w.change("a command that goes on") })
	}
}

// endTurn ends the turn, and its user changes files until the next one.
func (w *folderWorld) endTurn() {
	if w.r.IntN(4) > 0 { // else it is interrupted
		w.hear(daemon.Report{Event: "Stop", Tasks: new(int(w.running.Load()))}, 0)
	}
	w.turn = false
	for range w.r.IntN(3) {
		w.pause(20 * time.Second)
		w.change("the user")
	}
}

// another is a client without a hook, which comes, changes files and goes.
func (w *folderWorld) another() {
	w.beside = &hook.Client{Folder: folder, Session: "b", Prompted: func(string) {}}
	w.ledger.Enter(w.beside)
	w.note("another client, exclusive %v", w.exclusive())
	for range 1 + w.r.IntN(4) {
		w.pause(3 * time.Second)
		w.change("another client")
		w.readAhead()
		w.read()
	}
	w.ledger.Leave(w.beside)
	w.beside = nil
}

func (w *folderWorld) step() {
	if !w.turn {
		w.hear(daemon.Report{Event: "UserPromptSubmit", Prompt: "go"}, 0)
		w.turn = true
	}
	switch w.r.IntN(16) {
	case 0:
		w.endTurn()
	case 1:
		if w.r.IntN(4) == 0 {
			w.note("the daemon ends, and another one starts")
			w.start()
		}
	case 2:
		w.background(w.r.IntN(3) == 0)
	case 3:
		w.another()
	case 4, 5, 6:
		w.use()
	case 7, 8, 9:
		w.readAhead()
	default:
		w.readAhead()
		w.pause(2 * time.Second)
		w.read()
	}
	w.pause([]time.Duration{100 * time.Millisecond, 3 * time.Second, 20 * time.Second}[w.r.IntN(3)])
}

// Whatever is changed in a folder, by tools that report it, by commands that go on, by people
// between turns, by others and round a crash: no answer that was fetched before the change is
// served after it. And answers are read ahead and served in between.
func TestModel(t *testing.T) {
	served := 0
	for seed := range uint64(400) {
		bubble.Test(t, func(t *testing.T) {
			w := &folderWorld{t: t, r: rand.New(rand.NewPCG(seed, 25))}
			w.start()
			if seed%4 > 0 {
				w.hear(daemon.Report{Event: "SessionStart", Why: "startup"}, 0)
			} else { // the client had been at work before there was a daemon
				w.goOn(false)
			}
			for range 80 {
				w.step()
			}
			time.Sleep(10 * time.Minute) // what goes on ends
			served += w.served
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d answers were served from before their call", served); served < 400 {
		t.Errorf("got %d answers that were read ahead and served, want some in each history", served)
	}
}

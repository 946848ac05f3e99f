package hook_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
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

// folderWorld is a folder with one file. A client's own tools, the commands that it leaves
// running, its user between turns, and another client change the file. It is prefetched and read
// through a real store, as the proxy does it.
type folderWorld struct {
	t         *testing.T
	r         *rand.Rand
	store     *dedup.Store
	ledger    *hook.Ledger
	exclusive func() bool
	client    *hook.Client
	version   atomic.Int64 // of the file
	uses      int
	turn      bool         // the client is in a turn
	blind     bool         // a change was made, and its report has not arrived yet
	running   atomic.Int64 // number of background commands
	beside    *hook.Client
	served    int   // number of prefetched answers that were served
	told      int64 // version when the end of a tool use was last reported

	mu   sync.Mutex
	what []string // log of events
}

const settle, writeSettle = 2 * time.Second, 60 * time.Second

// start starts a daemon, the first one or the next one after a crash, which does not have the
// earlier one's state.
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
	w.client = &hook.Client{Folder: folder, Session: "a", ServedBefore: w.client != nil, Prompted: func(string) {}}
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

// pause waits for a random time below most.
func (w *folderWorld) pause(most time.Duration) {
	time.Sleep(time.Duration(w.r.Int64N(int64(most))))
	synctest.Wait()
}

// change changes the file.
func (w *folderWorld) change(who string) {
	w.note("%s writes %d", who, w.version.Add(1))
}

// hear passes a report to the ledger that was sent ago before now.
func (w *folderWorld) hear(r daemon.Report, ago time.Duration) {
	r.Session, r.Folder, r.Sent = "a", folder, time.Now().Add(-ago).UnixMilli()
	w.note("%s %s %s %q, exclusive %v", r.Event, r.Tool, r.Use, r.Command, w.exclusive())
	w.ledger.Hear(&r)
}

// query returns a read of the file. If lasting is set, its tool has a freshness.
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

// fetch returns a fetch that reads the file after before, and returns it after another after.
func (w *folderWorld) fetch(before, after time.Duration) func(context.Context, *dedup.Flight) {
	return func(_ context.Context, f *dedup.Flight) {
		go func() {
			time.Sleep(before)
			version := w.version.Load()
			time.Sleep(after)
			f.Finish(fmt.Append(nil, version), false, true)
		}()
	}
}

func (w *folderWorld) span() time.Duration {
	return time.Duration(w.r.Int64N(int64(500 * time.Millisecond)))
}

// readAhead makes a prefetch, like the prefetch worker: it checks that the folder is exclusive
// before it starts the prefetch, and again before it sends it.
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
				f.Finish(nil, false, false)
				return
			}
			send(ctx, f)
		}()
	})
}

// read makes calls of the client. A prefetched answer must have the current version. The answer of
// a tool with freshness must be at least as new as the last reported end of a tool use.
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

// use plays one use of a tool, with reads meanwhile.
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
		w.blind = true // a change cannot be noticed before its report arrives
		w.change("a tool, reported late")
		time.Sleep(time.Second)
		w.hear(say("PreToolUse"), time.Second)
		w.blind = false
	} else {
		w.hear(say("PreToolUse"), 0)
	}
	if w.r.IntN(6) == 0 {
		time.Sleep(time.Duration(w.r.IntN(90)) * time.Second) // the user is asked to allow it, or it takes long
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
	case 0: // the use was not allowed, or its end is never reported; its changes were made before
	default:
		w.hear(say("PostToolUse"), 0)
		w.told = w.version.Load()
	}
}

// background plays a command that continues after its tool use has ended, and changes the file
// until it exits.
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

// goOn runs such a command. Its client reports its end, unless left is set.
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

// endTurn ends the turn. The user then changes the file before the next turn.
func (w *folderWorld) endTurn() {
	if w.r.IntN(4) > 0 { // otherwise the turn is interrupted
		w.hear(daemon.Report{Event: "Stop", Tasks: new(int(w.running.Load()))}, 0)
	}
	w.turn = false
	for range w.r.IntN(3) {
		w.pause(20 * time.Second)
		w.change("the user")
	}
}

// another plays a client without a hook that connects, changes the file and leaves.
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

// However a file is changed (by tools that report it, background commands, users between turns,
// other clients, and before or after a crash of the daemon), no answer that was fetched before the
// change is served after it. Between changes, prefetched answers are served.
func TestModel(t *testing.T) {
	served := 0
	histories := uint64(120)
	if os.Getenv("MCPSCHEDD_SOAK") != "" {
		histories = 4000
	}
	for seed := range histories {
		bubble.Test(t, func(t *testing.T) {
			w := &folderWorld{t: t, r: rand.New(rand.NewPCG(seed, 25))}
			w.start()
			if seed%4 > 0 {
				w.hear(daemon.Report{Event: "SessionStart", Why: "startup"}, 0)
			} else { // the client was in use before the daemon started
				w.goOn(false)
			}
			for range 80 {
				w.step()
			}
			time.Sleep(10 * time.Minute) // background commands exit
			served += w.served
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if t.Logf("%d prefetched answers were served", served); served < int(histories) {
		t.Errorf("got %d prefetched answers that were served, want at least one per history on average", served)
	}
}

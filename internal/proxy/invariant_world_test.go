package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// registers is how many registers the world has.
const registers = 3

// A write whose outcome the proxy never learned has landed within settling of
// it, or never does: the world refuses what would land later than half of that
// after it was sent, so that nothing depends on how busy the machine is.
const settling = 400 * time.Millisecond

// readTools and writeTools are what every upstream offers; reload says what the
// operator says of them.
var (
	readTools  = []string{"read", "look", "poll", "read_all"}
	writeTools = []string{"write", "write_edge", "write_hinted", "write_unknown", "write_task"}
)

// versions is the state of the world, or the part of it that an answer tells.
type versions [registers]int64

// world is the state behind every upstream: a version for each register, which a
// write raises by one when its effect lands.
type world struct {
	fetches atomic.Int64 // reads that reached a server

	mu     sync.Mutex
	now    versions
	serial int64
	writes map[int64]*write   // serial → write
	tasks  map[string]*effect // id → what it does
	homes  map[string]string  // session of a server with one client → whose it is
	faults []string
}

// write is one write of a client.
type write struct {
	register      int
	before, after time.Duration // until the effect lands, and from there to the reply
	fate          fate
	sent          time.Time
	landed        int64 // the version it made; 0: it has not landed
	runs          int   // how often a server was told to run it
}

// fate is what becomes of a write.
type fate string

const (
	lands     fate = "lands"
	fails     fate = "fails"     // without effect
	breaks    fate = "breaks"    // with its effect, but an error is answered
	withdrawn fate = "withdrawn" // cancelled by its client, and lands all the same
)

// effect is a task's: done is closed when it has landed.
type effect struct{ done chan struct{} }

func newWorld() *world {
	return &world{writes: make(map[int64]*write), tasks: make(map[string]*effect), homes: make(map[string]string)}
}

// look returns the state of the world.
func (w *world) look() versions {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// announce makes a write known, and returns the serial by which its servers know
// it.
func (w *world) announce(n *write) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	n.sent = time.Now()
	w.writes[w.serial] = n
	return w.serial
}

// land lets the effect of a write happen, unless it is too late.
func (w *world) land(n *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(n.sent) < settling/2 && n.fate != fails && n.landed == 0 {
		w.now[n.register]++
		n.landed = w.now[n.register]
	}
}

// landedAt returns the version that a write made; 0: none yet.
func (w *world) landedAt(n *write) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.landed
}

// blame notes something that must not have happened.
func (w *world) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// blamed returns what was noted since it was last asked.
func (w *world) blamed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.faults
	w.faults = nil
	return out
}

// forget drops the writes of a case that is over.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for serial, n := range w.writes {
		if time.Since(n.sent) > settling {
			delete(w.writes, serial)
		}
	}
	clear(w.tasks)
}

// worldTools are the tools of every upstream. What they say of themselves can only
// deny: the configuration does not trust them.
func worldTools() []string {
	var out []string
	for _, name := range append(readTools[:len(readTools):len(readTools)], writeTools...) {
		hint := ""
		if name == "write_hinted" {
			hint = `,"annotations":{"readOnlyHint":false}`
		}
		out = append(out, `{"name":"`+name+`","inputSchema":{"type":"object"}`+hint+`}`)
	}
	return out
}

// arguments are what a tool of the world is given.
type arguments struct {
	Register json.RawMessage // a number, or the same as a string
	Serial   int64           // of a write
}

// told is what a read answers.
type told struct {
	Up       string // the upstream that was asked
	Who      string // the session that asked it; "" for a prefetch
	Tool     string
	Register int
	Fetch    int64 // which of all reads this was; 0 for a poll, whose answers are the same until there is news
	Versions versions
}

// homeKey is that of the session by which a server with one client knows it.
type homeKey struct{}

// server returns an upstream's server.
func (w *world) server(up string) *mcptest.Server {
	return mcptest.New(mcptest.Options{Name: up, Tools: worldTools(), Answer: func(ctx context.Context, m jsonrpc.Message) []byte {
		switch m.Method {
		case "tools/call":
			home, _ := ctx.Value(homeKey{}).(string)
			return w.call(up, home, m.Params)
		case "tasks/get":
			return w.task(m.Params)
		}
		return nil
	}})
}

// call runs a tool. It does not look at whether its client still wants that.
func (w *world) call(up, home string, params []byte) []byte {
	tool, _ := jsonrpc.String(jsonrpc.Get(params, "name"))
	var a arguments
	if err := json.Unmarshal(jsonrpc.Get(params, "arguments"), &a); err != nil {
		w.blame("arguments of %s: %v", params, err)
	}
	if a.Serial != 0 {
		return w.write(a.Serial, jsonrpc.Get(params, "task") != nil)
	}
	nth := w.fetches.Add(1)
	t := told{Up: up, Tool: tool}
	if tool != "poll" {
		t.Fetch = nth
	}
	fmt.Sscanf(strings.Trim(string(a.Register), `"`), "%d", &t.Register)
	meta := jsonrpc.Get(params, "_meta")
	t.Who, _ = jsonrpc.String(jsonrpc.Get(meta, "claudecode/toolUseId"))
	if home != "" && t.Who != "" {
		w.inhabit(home, t.Who)
	}
	before, after := time.Duration(nth%3), time.Duration(nth%7) // beats, of a prefetch
	if delays, ok := jsonrpc.String(jsonrpc.Get(meta, "baggage")); ok {
		fmt.Sscanf(delays, "before=%d,after=%d", &before, &after)
	}
	time.Sleep(before * beat)
	t.Versions = w.look()
	time.Sleep(after * beat)
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and strings always marshal
	}
	return append(append([]byte(`{"content":[],"structuredContent":`), text...), '}')
}

// inhabit notes whose connection it is: no other session may use it.
func (w *world) inhabit(home, who string) {
	w.mu.Lock()
	owner, ok := w.homes[home]
	if !ok {
		w.homes[home] = who
	}
	w.mu.Unlock()
	if ok && owner != who {
		w.blame("answer of another principal: %s asked in the session of %s", who, owner)
	}
}

// write runs a write, or begins a task that does.
func (w *world) write(serial int64, task bool) []byte {
	w.mu.Lock()
	n := w.writes[serial]
	if n == nil {
		w.mu.Unlock()
		return []byte(`{"content":[],"isError":true}`) // far too late
	}
	n.runs++
	twice := n.runs > 1
	e := &effect{make(chan struct{})}
	id := fmt.Sprintf("task-%d", serial)
	if task {
		w.tasks[id] = e
	}
	w.mu.Unlock()
	if twice {
		w.blame("write %d was run twice", serial)
	}
	if task {
		go func() {
			time.Sleep(n.before)
			w.land(n)
			close(e.done)
		}()
		return []byte(`{"task":{"taskId":"` + id + `","status":"working"}}`)
	}
	time.Sleep(n.before)
	w.land(n)
	time.Sleep(n.after)
	if n.fate == fails || n.fate == breaks {
		return []byte(`{"content":[],"isError":true}`)
	}
	return []byte(`{"content":[]}`)
}

// task says how a task is, after a while if it goes on.
func (w *world) task(params []byte) []byte {
	id, _ := jsonrpc.String(jsonrpc.Get(params, "taskId"))
	w.mu.Lock()
	e := w.tasks[id]
	w.mu.Unlock()
	status := "working"
	if e == nil {
		status = "failed"
	} else {
		select {
		case <-e.done:
			status = "completed"
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Appendf(nil, `{"taskId":%q,"status":%q,"createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":60000}`, id, status)
}

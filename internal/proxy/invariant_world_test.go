package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// registers is the number of registers in the world.
const registers = 3

// settling is the time within which a write of unknown outcome lands. The world refuses a write
// that would land later than half of it after sending, so that the test does not depend on the
// load of the machine.
const settling = 400 * time.Millisecond

// readTools and writeTools are offered by every upstream. The event "reload" changes how the
// operator classifies them.
var (
	readTools  = []string{"read", "look", "poll", "read_all"}
	writeTools = []string{"write", "write_edge", "write_hinted", "write_unknown", "write_task"}
)

// versions is the state of the world, or the part of it in an answer.
type versions [registers]int64

// world is the state behind every upstream: a version for each register. A write increments the
// version when its effect lands.
type world struct {
	fetches atomic.Int64 // reads that reached a server

	mu     sync.Mutex
	now    versions
	serial int64
	writes map[int64]*write   // serial → write
	tasks  map[string]*effect // id → effect
	homes  map[string]string  // session at a server with one client per session → client session
	faults []string
}

// write is one write of a client.
type write struct {
	register      int
	before, after time.Duration // delays until the effect lands, and from then until the reply
	fate          fate
	sent          time.Time
	landed        int64 // version that it made; 0 if it has not landed
	runs          int   // how often a server was asked to run it; must be at most 1
}

// fate is the outcome of a write.
type fate string

const (
	lands     fate = "lands"
	fails     fate = "fails"     // no effect
	breaks    fate = "breaks"    // has its effect, but answers with an error
	withdrawn fate = "withdrawn" // cancelled by its client, but lands
)

// effect is the effect of a task. done is closed when it has landed.
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

// announce registers a write and returns its serial number for the servers.
func (w *world) announce(n *write) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	n.sent = time.Now()
	w.writes[w.serial] = n
	return w.serial
}

// land applies the effect of a write unless it is too late.
func (w *world) land(n *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(n.sent) < settling/2 && n.fate != fails && n.landed == 0 {
		w.now[n.register]++
		n.landed = w.now[n.register]
	}
}

// landedAt returns the version that a write made, or 0.
func (w *world) landedAt(n *write) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.landed
}

// blame records a fault.
func (w *world) blame(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// blamed returns the faults since the last call.
func (w *world) blamed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.faults
	w.faults = nil
	return out
}

// forget removes the writes of a finished history.
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

// worldTools are the tools of every upstream. Their annotations can only deny, as the configuration
// does not trust the servers.
func worldTools() []string {
	var out []string
	for _, name := range append(slices.Clip(readTools), writeTools...) {
		hint := ""
		if name == "write_hinted" {
			hint = `,"annotations":{"readOnlyHint":false}`
		}
		out = append(out, `{"name":"`+name+`","inputSchema":{"type":"object"}`+hint+`}`)
	}
	return out
}

// arguments are the arguments of the tools.
type arguments struct {
	Register json.RawMessage // a number, or the same number as a string
	Serial   int64           // of a write
}

// told is the content of an answer.
type told struct {
	Up       string // upstream that answered
	Who      string // session that asked; "" for a prefetch
	Tool     string
	Register int
	Fetch    int64 // number of the read; 0 for a poll, which repeats its answer until there is a change
	Versions versions
}

// homeKey is the context key of the session at a server with one client per session.
type homeKey struct{}

// server returns the server of an upstream.
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

// call runs a tool. It ignores cancellation.
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
	before, after := time.Duration(nth%3), time.Duration(nth%7) // delays of a prefetch, in beats
	if delays, ok := jsonrpc.String(jsonrpc.Get(meta, "baggage")); ok {
		fmt.Sscanf(delays, "before=%d,after=%d", &before, &after)
	}
	time.Sleep(before * beat)
	t.Versions = w.look()
	time.Sleep(after * beat)
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // numbers and strings can always be marshalled
	}
	return append(append([]byte(`{"content":[],"structuredContent":`), text...), '}')
}

// inhabit records which session uses a connection, and fails if there are two.
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

// write runs a write, or starts a task that does.
func (w *world) write(serial int64, task bool) []byte {
	w.mu.Lock()
	n := w.writes[serial]
	if n == nil {
		w.mu.Unlock()
		return []byte(`{"content":[],"isError":true}`) // too late to land
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
			time.Sleep(n.after)
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

// task returns the state of a task, after a delay if it is still running.
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
		case <-time.After(5 * time.Millisecond): // longer than a write settles
		}
	}
	return fmt.Appendf(nil, `{"taskId":%q,"status":%q,"createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z","ttl":60000}`, id, status)
}

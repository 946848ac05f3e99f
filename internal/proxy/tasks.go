package proxy

import (
	"sync"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// maxTasks bounds how many tasks a session remembers the upstream of.
const maxTasks = 4096

// tasks are the tasks of one session: requests that go on after their answer. It owns
// which upstream runs each of them, and the write that stays pending until its end.
type tasks struct {
	mu    sync.Mutex
	known map[taskKey]taskState
	begun int // so far
}

// taskKey names a task. Its id is its server's own: another server may have the same.
type taskKey struct {
	instance uint64 // of the upstream
	id       string
}

// taskState is what is known of a task.
type taskState struct {
	write *dedup.PendingWrite // nil: the task has ended
	nth   int                 // of the session's tasks
}

// preferredTo reports whether a request about a task more likely means r than q, where both
// have the same id: one that still runs, and of two such the later one.
func (r taskState) preferredTo(q taskState) bool {
	if (r.write == nil) != (q.write == nil) {
		return r.write != nil
	}
	return r.nth > q.nth
}

// begin notes that the upstream of a lease runs a task, and keeps its write pending.
func (t *tasks) begin(l *leased, id string, write *dedup.PendingWrite) {
	l.TaskStarted()
	write.Doubt()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTasks {
		t.known = make(map[taskKey]taskState) // which upstream runs a task can still be found by asking each
	}
	t.begun++
	t.known[taskKey{l.Instance(), id}] = taskState{write, t.begun}
}

// running reports whether a task is not known to have ended.
func (t *tasks) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, state := range t.known {
		if state.write != nil {
			return true
		}
	}
	return false
}

// runner is the lease, of those given, whose upstream runs a task; nil: none is known to.
func (t *tasks) runner(leases []*leased, id string) *leased {
	t.mu.Lock()
	defer t.mu.Unlock()
	var runner *leased // two servers may have given the same id
	var best taskState
	for _, l := range leases {
		state, known := t.known[taskKey{l.Instance(), id}]
		if known && (runner == nil || state.preferredTo(best)) {
			runner, best = l, state
		}
	}
	return runner
}

// holders returns the leases on upstreams that may know the task that a request names: the
// one that runs it for this session, else all that have tasks. A request that changes the
// task goes to no other than the first.
func (t *tasks) holders(method string, rawID []byte, leases []*leased) ([]*leased, *jsonrpc.Error) {
	id, _ := jsonrpc.String(rawID)
	if l := t.runner(leases, id); l != nil {
		return []*leased{l}, nil
	}
	found := where(leases, func(l *leased) bool { return l.mayHave("tasks") })
	if changes := method == "tasks/cancel" || method == "tasks/update"; changes && len(found) > 1 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.taskId: no task of this session"}
	}
	return found, nil
}

// noteStatus notes what a server says of a task, by its raw id and status: its effect has
// landed when it has ended, and may still land while it goes on.
func (t *tasks) noteStatus(l *leased, rawID, status []byte) {
	id, _ := jsonrpc.String(rawID)
	key, ended := taskKey{l.Instance(), id}, endsTask(status)
	t.mu.Lock()
	state := t.known[key]
	if state.write != nil && ended {
		t.known[key] = taskState{nil, state.nth}
	}
	t.mu.Unlock()
	switch {
	case state.write == nil:
	case ended:
		state.write.End()
	default:
		state.write.Doubt()
		l.TaskStarted()
	}
}

// endsTask reports whether a task of that raw status has come to its end.
func endsTask(status []byte) bool {
	switch string(status) {
	case `"completed"`, `"failed"`, `"cancelled"`:
		return true
	}
	return false
}

// taskBegun is the task that an answer says has begun; false: there is none. The client
// asked for one, or, in the stateless era, the server made one of the call.
func taskBegun(answer upstream.Answer, askedFor bool) (id string, ok bool) {
	result := answer.Result
	switch {
	case result == nil:
		return "", false
	case answer.Stateless && string(jsonrpc.Get(result, "resultType")) == `"task"`:
	case askedFor:
		result = jsonrpc.Get(result, "task")
	default:
		return "", false
	}
	return jsonrpc.String(jsonrpc.Get(result, "taskId"))
}

// noteTaskAnswer notes what the answer to a request about a task says of it.
func noteTaskAnswer(x *request, answer upstream.Answer) {
	var status []byte
	switch x.msg.Method {
	case "tasks/get", "tasks/cancel", "tasks/update":
		status = jsonrpc.Get(answer.Result, "status")
	case "tasks/result": // answered when it has ended
		status = []byte(`"completed"`)
	}
	if status != nil {
		x.s.tasks.noteStatus(x.call.lease, x.msg.Index.Get("taskId"), status)
	}
}

// serveTaskList joins the tasks of every upstream that has some.
func serveTaskList(x *request) {
	out := []byte(`{"tasks":[`)
	for _, l := range where(x.s.leases.current(), func(l *leased) bool { return l.Live() && l.mayHave("tasks") }) { // one that is starting has none yet
		x.bind(newCall(x, l, nil))
		o := waitFor(x.ask)
		x.call.turn.Leave()
		if o.err != nil || o.answer.Error != nil {
			continue
		}
		for task := range jsonrpc.Elements(jsonrpc.Get(o.answer.Result, "tasks")) {
			out = append(append(out, task...), ',')
		}
	}
	if out[len(out)-1] == ',' {
		out = out[:len(out)-1]
	}
	x.finish(append(out, "]}"...))
}

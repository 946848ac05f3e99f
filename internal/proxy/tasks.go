package proxy

import (
	"bytes"
	"slices"
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
	known map[string]taskRun // id → the latest task that was given it: another server may give the same
}

// taskRun is one of them.
type taskRun struct {
	instance uint64              // of the upstream that runs it
	write    *dedup.PendingWrite // nil: the task has ended
}

// begin notes that the upstream of a lease runs a task, and keeps its write pending.
func (t *tasks) begin(l *leased, id string, write *dedup.PendingWrite) {
	l.TaskStarted()
	write.Doubt()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil || len(t.known) >= maxTasks {
		t.known = make(map[string]taskRun) // which upstream runs a task can still be found by asking each
	}
	t.known[id] = taskRun{l.Instance(), write}
}

// running reports whether a task is not known to have ended.
func (t *tasks) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range t.known {
		if task.write != nil {
			return true
		}
	}
	return false
}

// holders returns the leases on upstreams that may know the task that a request names: the
// one that runs it for this session, else all that have tasks. A request that changes the
// task goes to no other than the first.
func (t *tasks) holders(method string, rawID []byte, leases []*leased) ([]*leased, *jsonrpc.Error) {
	id, _ := jsonrpc.String(rawID)
	t.mu.Lock()
	task, known := t.known[id]
	t.mu.Unlock()
	if l := findLease(leases, func(l *leased) bool { return l.Instance() == task.instance }); known && l != nil {
		return []*leased{l}, nil
	}
	found := filterLeases(leases, func(l *leased) bool { return l.mayHave("tasks") })
	if changes := method == "tasks/cancel" || method == "tasks/update"; changes && len(found) > 1 {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.taskId: no task of this session"}
	}
	return found, nil
}

// noteStatus notes what a server says of a task, by its raw id and status: its effect has
// landed when it has ended, and may still land while it goes on.
func (t *tasks) noteStatus(l *leased, rawID, status []byte) {
	id, _ := jsonrpc.String(rawID)
	ended := endsTask(status)
	t.mu.Lock()
	known := t.known[id]
	if known.instance != l.Instance() {
		known.write = nil
	} else if known.write != nil && ended {
		t.known[id] = taskRun{known.instance, nil}
	}
	t.mu.Unlock()
	switch {
	case known.write == nil:
	case ended:
		known.write.End()
	default:
		known.write.Doubt()
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
	var all [][]byte
	for _, l := range filterLeases(x.s.leases.current(), func(l *leased) bool { return l.Live() && l.mayHave("tasks") }) { // one that is starting has none yet
		if o := x.askUpstream(l, nil); o.err == nil && o.answer.Error == nil {
			all = slices.AppendSeq(all, jsonrpc.Elements(jsonrpc.Get(o.answer.Result, "tasks")))
		}
	}
	x.finish(slices.Concat([]byte(`{"tasks":[`), bytes.Join(all, []byte(",")), []byte("]}")))
}

package proxy

import (
	"bytes"
	"slices"
	"sync"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// maxTasks limits the tasks that a session keeps track of.
const maxTasks = 4096

// tasks tracks the tasks of one session, which continue after the response to their request.
// It maps each task to the server that runs it, and to its write, which stays pending until
// the task ends.
type tasks struct {
	mu   sync.Mutex
	byID map[string]taskRun // the latest task with each id: servers may assign equal ids
}

// taskRun is one task.
type taskRun struct {
	instance uint64              // upstream instance that runs it
	write    *dedup.PendingWrite // nil if the task has ended
}

// add registers a task of the lease's server and keeps its write pending.
func (t *tasks) add(l *sessionLease, id string, write *dedup.PendingWrite) {
	l.TaskStarted()
	write.Doubt()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil || len(t.byID) >= maxTasks {
		t.byID = make(map[string]taskRun) // holders then returns every server with tasks
	}
	t.byID[id] = taskRun{l.Instance(), write}
}

// running reports whether any task may still be running.
func (t *tasks) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, task := range t.byID {
		if task.write != nil {
			return true
		}
	}
	return false
}

// holders returns the leases on servers that may have the task of a request: the server that
// runs it, if known, else all servers with tasks. A request that changes an unknown task is
// refused if several servers have tasks.
func (t *tasks) holders(method string, rawID []byte, leases []*sessionLease) ([]*sessionLease, *jsonrpc.Error) {
	id, _ := jsonrpc.String(rawID)
	t.mu.Lock()
	task, known := t.byID[id]
	t.mu.Unlock()
	if l := findLease(leases, func(l *sessionLease) bool { return l.Instance() == task.instance }); known && l != nil {
		return []*sessionLease{l}, nil
	}
	found := filterLeases(leases, func(l *sessionLease) bool { return l.mayHave("tasks") })
	if changes := method == "tasks/cancel" || method == "tasks/update"; changes && len(found) > 1 {
		return nil, invalidParams("params.taskId: no task of this session")
	}
	return found, nil
}

// updateStatus handles a task's status, given the raw id and status: the write ends with the
// task, and stays pending while the task runs.
func (t *tasks) updateStatus(l *sessionLease, rawID, status []byte) {
	id, _ := jsonrpc.String(rawID)
	ended := slices.Contains([]string{`"completed"`, `"failed"`, `"cancelled"`}, string(status))
	t.mu.Lock()
	task := t.byID[id]
	if task.instance != l.Instance() {
		task.write = nil
	} else if task.write != nil && ended {
		t.byID[id] = taskRun{task.instance, nil}
	}
	t.mu.Unlock()
	switch {
	case task.write == nil:
	case ended:
		task.write.End()
	default:
		task.write.Doubt()
		l.TaskStarted()
	}
}

// updateTask handles the task's status in the answer to a request about the task.
func updateTask(x *request, answer upstream.Answer) {
	var status []byte
	switch x.msg.Method {
	case "tasks/get", "tasks/cancel", "tasks/update":
		status = jsonrpc.Get(answer.Result, "status")
	case "tasks/result": // answered when the task has ended
		status = []byte(`"completed"`)
	}
	if status != nil {
		x.s.tasks.updateStatus(x.call.lease, x.msg.Index.Get("taskId"), status)
	}
}

// taskID returns the id of the task in a result that announces one: a server of the handshake
// era names it in the member task.
func taskID(result []byte) (id string, ok bool) {
	if task := jsonrpc.Get(result, "task"); task != nil {
		result = task
	}
	return jsonrpc.String(jsonrpc.Get(result, "taskId"))
}

// serveTaskList serves tasks/list with the tasks of all servers.
func serveTaskList(x *request) outcome {
	var all [][]byte
	running := func(l *sessionLease) bool { return l.Live() && l.mayHave("tasks") } // a server that is starting has no task yet
	for _, l := range filterLeases(x.s.leases.current(), running) {
		if o := callUpstream(x, l, nil); o.err == nil && o.answer.Error == nil {
			all = slices.AppendSeq(all, jsonrpc.Elements(jsonrpc.Get(o.answer.Result, "tasks")))
		}
	}
	return ownOutcome(slices.Concat([]byte(`{"tasks":[`), bytes.Join(all, []byte(",")), []byte("]}")))
}

package proxy

import (
	"bytes"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// maxTasks limits the tasks that a session keeps track of.
const maxTasks = 4096

// tasks tracks the tasks of one session, which continue after the response to their request.
// It maps each task to the server that runs it, and to its write, which stays pending while the
// task runs and its status is asked for or told within write_settle.
type tasks struct {
	mu    sync.Mutex
	added int // tasks so far
	all   *simplelru.LRU[taskKey, taskRun]
}

// taskKey names a task: two servers may assign equal ids.
type taskKey struct{ server, id string }

// taskServer names the server that runs the lease's tasks. A reload that changes, for example, the token of a
// server over HTTP leaves its tasks, but a process ends with its command.
func taskServer(l *catalog.Lease) string {
	if url := l.Member.Spec.URL; url != "" {
		return l.Name() + "\x00" + url
	}
	return l.Member.Key
}

// taskRun is one task.
type taskRun struct {
	number int                 // in the order in which the session's tasks began
	write  *dedup.PendingWrite // expires after write_settle without a status
	ended  bool
}

func newTasks() *tasks {
	all, err := simplelru.NewLRU[taskKey, taskRun](maxTasks, nil)
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &tasks{all: all}
}

// add registers a task of the lease's server and keeps its write pending.
func (t *tasks) add(l *catalog.Lease, id string, write *dedup.PendingWrite) {
	l.TaskStarted()
	write.Doubt()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.added++
	t.all.Add(taskKey{taskServer(l), id}, taskRun{number: t.added, write: write})
}

// forwardTaskProgress sends the client the progress of the task that the call started. The call's
// progress token remains valid until the task ends. id is the raw id of the call's answer.
func (c *upstreamCall) forwardTaskProgress(id []byte) {
	if c.request == nil || c.step() != nil {
		return
	}
	token := bytes.Clone(c.request.msg.Index.Token())
	if token == nil {
		return
	}
	s := c.s
	c.lease.ForwardProgress(id, func(params []byte) {
		s.notify("notifications/progress", jsonrpc.Set(params, "progressToken", token))
	})
}

// running reports whether any task may still be running: it has not ended, and its status was
// asked for or told within write_settle.
func (t *tasks) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.all.Values(), func(r taskRun) bool { return !r.write.Ended() })
}

// holders returns the leases on servers that may have the task of a request. If the session has
// started tasks with that id, that is the server of the latest one. If it has been removed or replaced, the
// request is refused, as another server's task may have the same id. For an id that the session
// does not know, it is every server with tasks, but a request that changes the task is refused if
// there are several.
func (t *tasks) holders(method string, rawID []byte, leases catalog.Leases) (catalog.Leases, *jsonrpc.Error) {
	id, _ := jsonrpc.String(rawID)
	t.mu.Lock()
	defer t.mu.Unlock()
	latest, server := 0, ""
	for _, key := range t.all.Keys() {
		if task, _ := t.all.Peek(key); key.id == id && task.number > latest {
			latest, server = task.number, key.server
		}
	}
	if latest > 0 {
		if l := leases.Find(func(l *catalog.Lease) bool { return taskServer(l) == server }); l != nil {
			return catalog.Leases{l}, nil
		}
		return nil, invalidParams("params.taskId: its server has been removed or replaced")
	}
	found := leases.Filter(func(l *catalog.Lease) bool { return l.MayHave("tasks") })
	if changes := method == "tasks/cancel" || method == "tasks/update"; changes && len(found) > 1 {
		return nil, invalidParams("params.taskId: no task of this session")
	}
	return found, nil
}

// updateStatus handles a task's status, given the raw id and status: the write ends with the
// task, and stays pending while the task runs. If it has expired, another takes its place, since
// the task may have changed something after it.
func (t *tasks) updateStatus(l *catalog.Lease, rawID, status []byte) {
	id, _ := jsonrpc.String(rawID)
	ended := slices.Contains([]string{`"completed"`, `"failed"`, `"cancelled"`}, string(status))
	key := taskKey{taskServer(l), id}
	t.mu.Lock()
	task, known := t.all.Get(key)
	if !known || task.ended {
		t.mu.Unlock()
		return
	}
	task.write = task.write.Unexpired()
	task.ended = ended
	t.all.Add(key, task)
	t.mu.Unlock()
	if ended {
		task.write.End()
		return
	}
	task.write.Doubt()
	l.TaskStarted()
}

// note handles a notification of the lease's server, if it is the status of a task.
func (t *tasks) note(l *catalog.Lease, method string, params []byte) {
	if method == "notifications/tasks/status" || method == "notifications/tasks" {
		t.updateStatus(l, jsonrpc.Get(params, "taskId"), jsonrpc.Get(params, "status"))
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

// Bounds of the list of tasks that is read from one server.
const (
	maxTaskPages = 100
	maxTaskBytes = 4 << 20 // after the page that exceeds it, no further one is read
)

// serveTaskList serves tasks/list with the tasks of all servers. It fails if every server failed.
func serveTaskList(x *request) outcome {
	if err := refuseCursor(x); err != nil {
		return outcome{err: err}
	}
	var all [][]byte
	var failed *upstreamCall
	var failure outcome
	listed := false
	running := func(l *catalog.Lease) bool { return l.Live() && l.MayHave("tasks") } // a server that is starting has no task yet
	for _, l := range x.s.leases.load().Filter(running) {
		c, cursor, size := newCall(x, l, nil), []byte(nil), 0
		for range maxTaskPages {
			o := callUpstream(x, c)
			if o.err != nil || o.answer.Error != nil {
				failed, failure = c, o
				break
			}
			listed = true
			all = slices.AppendSeq(all, jsonrpc.Elements(jsonrpc.Get(o.answer.Result, "tasks")))
			next := upstream.NextCursor(o.answer.Result)
			size += len(o.answer.Result)
			if next == nil || bytes.Equal(next, cursor) || size > maxTaskBytes {
				break
			}
			c, cursor = newCall(x, l, nil), next
			c.params = parsedParams(jsonrpc.Set(x.msg.Index.Raw(), "cursor", next))
		}
	}
	if failed != nil && !listed {
		x.call = failed // the error is that call's
		return failure
	}
	return ownOutcome(slices.Concat([]byte(`{"tasks":[`), bytes.Join(all, []byte(",")), []byte("]}")))
}

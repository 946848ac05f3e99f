package schedule_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/schedule"
)

const second = time.Second

// begin takes all that may begin.
func begin(q *schedule.Queue) (tasks []int) {
	for task, ok := q.Next(); ok; task, ok = q.Next() {
		tasks = append(tasks, task)
	}
	return tasks
}

func wantBegun(t *testing.T, q *schedule.Queue, want ...int) {
	t.Helper()
	if got := begin(q); !slices.Equal(got, want) {
		t.Errorf("got %v begun, want %v", got, want)
	}
}

func TestQueueLongestPathFirst(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: 2 * second},
		{Mean: second},
		{Mean: 3 * second, After: []int{1}},
		{Mean: second, After: []int{0, 2}},
	}, schedule.Slots{Total: 1})
	for _, want := range []int{1, 2, 0, 3} {
		wantBegun(t, q, want)
		q.Done(want)
	}
	if q.Left() != 0 {
		t.Errorf("got %d left", q.Left())
	}
}

func TestQueueOfEqualPaths(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: second, P90: second},
		{Mean: second, P90: second},
		{Mean: second, P90: 3 * second}, // may be the longest
	}, schedule.Slots{})
	wantBegun(t, q, 2, 0, 1)
}

func TestQueueHosts(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: 9 * second, Host: "a"},
		{Mean: 8 * second, Host: "a"},
		{Mean: 7 * second, Host: "b"},
		{Mean: 6 * second, Host: "a"},
		{Mean: 5 * second},
	}, schedule.Slots{Total: 3, Hosts: map[string]int{"a": 1}})
	wantBegun(t, q, 0, 2, 4) // what does not fit is passed over
	q.Done(2)
	wantBegun(t, q)
	q.Done(0)
	wantBegun(t, q, 1)
	q.Done(4)
	wantBegun(t, q)
	q.Done(1)
	wantBegun(t, q, 3)
}

// A conflict counts whichever side names it, and one that is passed over keeps no
// slot of its host from others.
func TestQueueConflicts(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: 9 * second, Conflicts: []int{1, 0}},
		{Mean: 8 * second, Host: "a"},
		{Mean: 7 * second, Host: "a"},
		{Mean: 6 * second, Conflicts: []int{2}},
	}, schedule.Slots{Hosts: map[string]int{"a": 1}})
	wantBegun(t, q, 0, 2)
	if !q.Ready(1) || !q.Ready(3) {
		t.Error("what only a conflict holds up is not ready")
	}
	q.Done(0)
	wantBegun(t, q)
	q.Done(2)
	wantBegun(t, q, 1, 3)
}

func TestQueueMore(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: 9 * second, Host: "a"},
		{Mean: 8 * second, After: []int{0}},
		{Mean: 7 * second, Host: "b"},
	}, schedule.Slots{Total: 4, Hosts: map[string]int{"a": 3, "b": 1}})
	if q.More(0) {
		t.Error("more for a task that does not run")
	}
	if task, _ := q.Next(); task != 0 || q.More(0) {
		t.Error("more while a ready task fits")
	}
	wantBegun(t, q, 2)
	for n, want := range []bool{true, true, false} {
		if got := q.More(0); got != want {
			t.Errorf("more for the first task, time %d: got %v", n, got)
		}
	}
	q.Less(0)
	if q.More(2) { // its host has one
		t.Error("got more than the host allows")
	}
	if !q.More(0) {
		t.Error("what was given back is not free")
	}
	q.Done(0)
	wantBegun(t, q, 1)
	q.Less(2) // its only one: stays until it is done
	if q.More(2) {
		t.Error("its last slot was given back")
	}
}

// A task that will not run ends like one that has run, wherever it stands, and
// those that wait for others too go on waiting.
func TestQueueDoneWithoutRunning(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: second},
		{Mean: second, After: []int{0}},
		{Mean: second, After: []int{1}},
		{Mean: second, After: []int{0, 2}},
	}, schedule.Slots{})
	q.Done(2)
	q.Done(2)
	if q.Left() != 3 || q.Ready(3) || q.Ready(2) {
		t.Errorf("got %d left, ready %v, %v", q.Left(), q.Ready(2), q.Ready(3))
	}
	q.Done(0)
	wantBegun(t, q, 1, 3)
}

// A path over a task that has ended leads nowhere: found by the model, where what
// led to a skipped task kept its old place.
func TestQueueSkippedTaskHoldsNobodyUp(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: second},
		{Mean: 9 * second, After: []int{0}},
		{Mean: 9 * second, After: []int{1}},
		{Mean: 2 * second},
	}, schedule.Slots{Total: 1})
	q.Done(1)
	wantBegun(t, q, 2)
	q.Done(2)
	wantBegun(t, q, 3)
}

func TestQueueExpect(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{
		{Mean: 2 * second},
		{Mean: second},
		{Mean: second, After: []int{1}},
		{Mean: second, After: []int{2}},
	}, schedule.Slots{Total: 1})
	q.Expect(3, time.Millisecond)
	q.Expect(2, time.Millisecond)
	q.Expect(0, 0) // nothing is known
	wantBegun(t, q, 0)
	q.Done(0)
	wantBegun(t, q, 1)
	q.Expect(1, 99*second) // runs already
	q.Done(1)
	wantBegun(t, q, 2)
}

// A task of which nothing is known is like the others, however long those are.
func TestQueueOfEndlessTasks(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{{}, {}, {Mean: math.MaxInt64}}, schedule.Slots{})
	q.Expect(0, time.Hour)
	wantBegun(t, q, 2, 1, 0)
}

// A path that changes at the end of a ladder changes each rung once. Looked at from
// the other end each rung would change twice as often as the one after it, and this
// would not come to an end.
func TestExpectOnALadder(t *testing.T) {
	const rungs = 50
	tasks := []schedule.Task{{Mean: 1}, {Mean: 2}}
	for rung := 1; rung < rungs; rung++ {
		after := []int{2*rung - 2, 2*rung - 1}
		tasks = append(tasks, schedule.Task{Mean: 1, After: after}, schedule.Task{Mean: 1 + 1<<rung, After: after})
	}
	q := schedule.NewQueue(append(tasks, schedule.Task{Mean: 1 << (rungs + 2)}), schedule.Slots{Total: 1})
	q.Expect(2*rungs-1, 1<<(rungs+2))
	wantBegun(t, q, 1)
}

func TestQueueOnACycle(t *testing.T) {
	q := schedule.NewQueue([]schedule.Task{{After: []int{1}}, {After: []int{0}}, {After: []int{1}}, {}}, schedule.Slots{})
	wantBegun(t, q, 3)
	q.Done(3)
	wantBegun(t, q)
	if q.Left() != 3 {
		t.Errorf("got %d left, want 3", q.Left())
	}
	q.Expect(0, 5*second) // its path would grow for ever
	wantBegun(t, q)
	q.Done(1) // who owns the queue can still end it
	wantBegun(t, q, 0, 2)
}

package schedule

import (
	"container/heap"
	"time"
)

// Expect says what is now known of how long a task takes; 0 and less change
// nothing. Which task comes next follows: what has not begun and leads to it is
// looked at once before the next Next, however many are said.
func (q *Queue) Expect(task int, mean time.Duration) {
	if mean > 0 {
		q.lengths[task] = mean
		q.mark(task)
	}
}

// mark makes a task stale, save where paths have no end.
func (q *Queue) mark(task int) {
	if q.state[task] < running && q.place[task] >= 0 && !q.stale.has(task) {
		heap.Push(q.stale, task)
	}
}

// refresh finds the paths of the tasks that are stale and of those that lead to
// them, from the end to the beginning, and stops where nothing changes.
func (q *Queue) refresh() {
	for q.stale.Len() > 0 {
		task := heap.Pop(q.stale).(int)
		path := plus(q.lengths[task], longest(q.paths, q.next[task]))
		if path == q.paths[task] || q.state[task] >= running {
			continue
		}
		q.paths[task] = path
		if q.state[task] == ready {
			heap.Fix(q.lanes[q.lane[task]].ready, q.lanes[q.lane[task]].ready.at[task])
			q.reopen(q.lane[task])
		}
		for _, k := range q.tasks[task].After {
			q.mark(k)
		}
	}
}

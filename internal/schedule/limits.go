package schedule

import "time"

// CriticalPath is the chain of tasks that takes longest by Mean, in order, and how
// long that is. Of equal ones it takes the first. What is on a cycle or behind one is left out.
func CriticalPath(tasks []Task) (time.Duration, []int) {
	g := newGraph(tasks)
	paths := g.paths(Expected(tasks))
	at := -1
	for _, i := range g.order {
		if len(tasks[i].After) == 0 && (at < 0 || paths[i] > paths[at]) {
			at = i
		}
	}
	if at < 0 {
		return 0, nil
	}
	length, chain := paths[at], []int(nil)
	for at >= 0 {
		chain = append(chain, at)
		to := -1
		for _, i := range g.next[at] {
			if paths[i] > 0 && (to < 0 || paths[i] > paths[to]) {
				to = i
			}
		}
		at = to
	}
	return length, chain
}

// Bound is what no schedule can be shorter than if each task takes its Mean: the
// longest chain, the work shared out to all slots, or the work of one host shared
// out to its slots. The optimum may be longer; conflicts are not counted at all.
func Bound(tasks []Task, s Slots) time.Duration {
	bound, _ := CriticalPath(tasks)
	work, hosts := time.Duration(0), make(map[string]time.Duration) // of all; host → of those against it
	for i, length := range Expected(tasks) {
		work = plus(work, length)
		hosts[tasks[i].Host] = plus(hosts[tasks[i].Host], length)
	}
	bound = max(bound, share(work, s.Total))
	delete(hosts, "")
	for host, work := range hosts {
		bound = max(bound, share(work, s.Hosts[host]))
	}
	return bound
}

// share is work over slots, rounded up: durations are whole nanoseconds, and so is
// when the last of them ends.
func share(work time.Duration, slots int) time.Duration {
	if slots <= 0 || work == 0 {
		return 0
	}
	return (work-1)/time.Duration(slots) + 1
}

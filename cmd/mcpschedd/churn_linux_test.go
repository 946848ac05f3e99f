package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// churn is a test with ten clients of one daemon, while processes of all kinds are killed and
// stopped. Guarantees to clients are checked during the run, and with the servers' journals at the
// end.
type churn struct {
	*daemonTest
	dir    string
	calls  int64         // to be made in total
	every  int64         // number of calls between two disturbances
	made   atomic.Int64  // calls that were answered or given up
	due    chan struct{} // receives when a disturbance is due
	seats  [10]seat
	tally  tally
	memory []used // use of the daemon, at each disturbance
}

// journals are the names of the upstreams' journals: each session has its own instance of the
// first upstream, and all share one of the second.
var journals = [2]string{"own", "all"}

// seat is one of the clients. It has one session at a time.
type seat struct {
	mu  sync.Mutex
	now *churnSession // nil if there is none yet
}

// tally is what clients were answered, for comparison with the journals.
type tally struct {
	mu      sync.Mutex
	done    [2]map[put]bool // journal → puts that were answered as done
	refused [2]map[put]bool // journal → puts that were answered as not done
	answers map[string]int  // kind of answer → number
}

// note records the answer to a put.
func (t *tally) note(journal int, p put, answer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case answer == "":
		t.done[journal][p] = true
	case strings.Contains(answer, "not done"), strings.Contains(answer, "is not available") && !strings.Contains(answer, "before the answer"):
		t.refused[journal][p] = true
	}
}

func (t *tally) count(answer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[answer]++
}

// used is the memory and the open files of a process.
type used struct{ process, resident, files int }

// Ten clients make calls while clients, servers and the daemon are killed and stopped. Every
// request gets one response, which belongs to it or is an error. A write is done at most once, and
// as its response says. Writes that were answered are in order, and a read sees each write that
// was answered before it was sent. At the end no process is left.
//
//	MCPSCHEDD_SOAK=1 go test -run TestChurn -v -timeout 60m ./cmd/mcpschedd
func TestChurn(t *testing.T) {
	t.Parallel()
	c := newChurn(t, 1500, 100)
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		c = newChurn(t, 1_000_000, 1000)
	}
	if n, err := strconv.ParseInt(os.Getenv("MCPSCHEDD_CHURN"), 10, 64); err == nil { // number of calls
		c.calls = n
	}
	var clients, disturbing sync.WaitGroup
	for i := range c.seats {
		clients.Go(func() { c.client(i) })
	}
	disturbing.Go(c.disturb)
	clients.Wait()
	close(c.due)
	disturbing.Wait()
	c.wantNothingLeft()
	c.wantJournals()
	c.wantFlatMemory()
	t.Logf("%d calls: %v", c.made.Load(), c.tally.answers)
}

func newChurn(t *testing.T, calls, every int64) *churn {
	dir := t.TempDir()
	var config strings.Builder
	for _, name := range journals {
		fmt.Fprintf(&config, "[upstreams.%s]\ncommand = %q\nenv = { %s = %q, GORACE = \"atexit_sleep_ms=0\" }\n",
			name, os.Args[0], journalVariable, filepath.Join(dir, name))
	}
	config.WriteString("instances = \"shared\"\n[tools.\"*/get\"]\nside_effect_class = \"read_only\"\n[dedup]\nmax_bytes = \"4MiB\"\n")
	c := &churn{daemonTest: newDaemonTest(t, config.String()), dir: dir, calls: calls, every: every, due: make(chan struct{}, 1)}
	c.executable = filepath.Join(t.TempDir(), "mcpschedd")
	if err := os.Link(os.Args[0], c.executable); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(c.state, "logs", "mcpschedd.log")); t.Failed() {
			t.Logf("the end of the log, %v: %s", err, log[max(0, len(log)-20_000):])
		}
	})
	c.tally.answers = make(map[string]int)
	for i := range journals {
		c.tally.done[i], c.tally.refused[i] = make(map[put]bool), make(map[put]bool)
	}
	return c
}

// client has one session after another.
func (c *churn) client(seat int) {
	rng := rand.New(rand.NewPCG(25, uint64(seat)))
	for n := 0; c.made.Load() < c.calls && !c.Failed(); n++ {
		s := &churnSession{churn: c, rng: rng, key: fmt.Sprintf("%d-%d", seat, n)}
		s.program = c.connect(c.dir)
		c.seats[seat].mu.Lock()
		c.seats[seat].now = s
		c.seats[seat].mu.Unlock()
		s.end(s.converse())
	}
}

// count counts finished calls, and triggers the next disturbance when it is due.
func (c *churn) count(calls int) {
	if n := c.made.Add(int64(calls)); n/c.every != (n-int64(calls))/c.every {
		select {
		case c.due <- struct{}{}:
		default: // a disturbance is already due
		}
	}
}

// other returns a session of a random client; nil if it has none.
func (c *churn) other(rng *rand.Rand) *churnSession {
	seat := &c.seats[rng.IntN(len(c.seats))]
	seat.mu.Lock()
	defer seat.mu.Unlock()
	return seat.now
}

// disturb kills and stops processes, one at a time. During the last fifth of the calls the daemon
// stays, so that its memory can be compared.
func (c *churn) disturb() {
	rng := rand.New(rand.NewPCG(26, 0))
	for range c.due {
		running := c.daemonID()
		c.memory = append(c.memory, usedBy(running))
		steady := c.made.Load() >= c.calls/5*4
		switch what := rng.IntN(6); {
		case what == 0:
			c.kill(rng)
		case what == 1:
			if s := c.other(rng); s != nil {
				c.stop(rng, s.cmd.Process.Pid)
			}
		case what == 2:
			c.signal(c.server(rng), syscall.SIGKILL)
		case what == 3:
			c.stop(rng, c.server(rng))
		case what == 4 && !steady:
			c.signal(running, syscall.SIGKILL)
		default:
			c.stop(rng, running)
		}
	}
}

// kill kills a client.
func (c *churn) kill(rng *rand.Rand) {
	if s := c.other(rng); s != nil {
		s.killed.Store(true)
		s.cmd.Process.Kill()
	}
}

// stop stops a process for a moment. A server may be killed meanwhile.
func (c *churn) stop(rng *rand.Rand, id int) {
	if id == 0 {
		return
	}
	c.signal(id, syscall.SIGSTOP)
	for range 1000 {
		if state := mcptest.ProcStatus(id, "State"); state == "" || state[0] != 'R' && state[0] != 'S' && state[0] != 'D' {
			break // it is stopped already, or has ended
		}
		time.Sleep(time.Millisecond)
	}
	if rng.IntN(2) == 0 {
		c.signal(c.server(rng), syscall.SIGKILL)
	}
	c.signal(id, syscall.SIGCONT)
}

// server returns the process of a random server; 0 if there is none.
func (c *churn) server(rng *rand.Rand) int {
	path := filepath.Join(c.dir, journals[rng.IntN(len(journals))])
	ids := journalServers(path)
	for len(ids) > 0 {
		i := rng.IntN(len(ids))
		if c.owns(ids[i]) {
			return ids[i]
		}
		_ = os.Remove(journalProcess(path, ids[i])) // it was killed
		ids = slices.Delete(ids, i, i+1)
	}
	return 0
}

// signal sends a signal to a process of this test, if it still runs.
func (c *churn) signal(id int, s syscall.Signal) {
	if id != 0 && c.owns(id) {
		_ = syscall.Kill(id, s) // it may have ended just now
	}
}

// usedBy returns the use of a process; zero if it has ended.
func usedBy(id int) used {
	resident, _ := strconv.Atoi(mcptest.ProcStatus(id, "VmRSS"))
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", id))
	return used{id, resident, len(files)}
}

// wantNothingLeft waits until the daemon and all processes that it started have ended.
func (c *churn) wantNothingLeft() {
	c.wantEnded()
	for range 100 {
		if len(c.processes()) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, id := range c.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
		c.Errorf("process %d is left: %q", id, line)
	}
}

// wantJournals compares the answers with the journals.
func (c *churn) wantJournals() {
	for i, name := range journals {
		at := make(map[put]int)
		last := make(map[string]int) // key → last number that was answered as done
		for n, p := range puts(c.T, filepath.Join(c.dir, name)) {
			if _, twice := at[p]; twice {
				c.Errorf("%s: %v was written twice", name, p)
			}
			at[p] = n
			if c.tally.done[i][p] {
				if p.n < last[p.key] {
					c.Errorf("%s: %v was written after %d", name, p, last[p.key])
				}
				last[p.key] = p.n
			}
			if c.tally.refused[i][p] {
				c.Errorf("%s: %v was written, and answered as not done", name, p)
			}
		}
		for p := range c.tally.done[i] {
			if _, written := at[p]; !written {
				c.Errorf("%s: %v was answered as done, and not written", name, p)
			}
		}
	}
}

// wantFlatMemory compares the mean memory of the last daemon in the last quarter of its life with
// that in the second quarter. Garbage may add a tenth.
func (c *churn) wantFlatMemory() {
	last := c.memory[len(c.memory)-1].process
	same := slices.DeleteFunc(c.memory, func(u used) bool { return u.process != last })
	quarter := len(same) / 4
	early, late := mean(same[quarter:2*quarter]), mean(same[len(same)-quarter:])
	c.Logf("the last daemon, seen %d times: %d KiB and %d files in its second quarter, %d KiB and %d files in its last", len(same), early.resident, early.files, late.resident, late.files)
	if int64(len(same))*c.every < 40_000 {
		return // it has not reached its size yet
	}
	if late.resident > early.resident*9/8 || late.files > early.files+10 {
		c.Errorf("the daemon grew: %v", same)
	}
}

func mean(all []used) (m used) {
	for _, u := range all {
		m.resident += u.resident
		m.files += u.files
	}
	n := max(len(all), 1)
	return used{resident: m.resident / n, files: m.files / n}
}

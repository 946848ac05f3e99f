package toolsearch_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/toolsearch"
)

// use plays a session with one search and the calls that follow it.
func use(x *toolsearch.Index, l *toolsearch.Learned, query string, called ...string) {
	s := l.Begin()
	s.Searched(query, keys(x.Search(query, 10, s)))
	for _, key := range called {
		s.Called(key)
	}
}

func first(x *toolsearch.Index, query string, s *toolsearch.Session) string {
	if hits := x.Search(query, 1, s); len(hits) > 0 {
		return hits[0].Key
	}
	return ""
}

// Words that no tool contains find the tool that was called after earlier searches for them.
func TestLearnedWords(t *testing.T) {
	x, l := toolsearch.New(tools()), toolsearch.NewLearned()
	if got := first(x, "triage the backlog", l.Begin()); got != "" {
		t.Fatalf("before learning: got %q, want nothing", got)
	}
	use(x, l, "triage the backlog", "tracker/close_issue")
	use(x, l, "read the notes", "files/read_file")
	if got := first(x, "triage a backlog", l.Begin()); got != "tracker/close_issue" {
		t.Errorf("got %q, want the tool that was called", got)
	}
	if got := first(x, "write a file", l.Begin()); got != "files/write_file" {
		t.Errorf("a query without learned words: got %q, want files/write_file", got)
	}
}

// A tool ranks higher in sessions that have called tools with which it was used before.
func TestLearnedTogether(t *testing.T) {
	x, l := toolsearch.New(tools()), toolsearch.NewLearned()
	for range 5 {
		use(x, l, "report", "tracker/list_issues", "files/write_file")
	}
	s := l.Begin()
	s.Called("tracker/list_issues")
	if got := first(x, "now the rest", s); got != "files/write_file" {
		t.Errorf("got %q, want files/write_file", got)
	}
	if got := first(x, "?!", s); got != "" {
		t.Errorf("without words: got %q, want nothing", got)
	}
	if got := first(x, "now the rest", l.Begin()); got != "" {
		t.Errorf("in another session: got %q, want nothing", got)
	}
}

// Merge adds what two processes have learned, and the stored state contains no word of a query.
func TestLearnedMerge(t *testing.T) {
	x := toolsearch.New(tools())
	one, two := toolsearch.NewLearned(), toolsearch.NewLearned()
	use(x, one, "triage the Bloomsbury backlog, password hunter2 and 4111111111111111", "tracker/close_issue")
	use(x, two, "harvest the orchard", "files/read_file")
	state, err := one.Merge(nil)
	if err != nil {
		t.Fatal(err)
	}
	if state, err = two.Merge(state); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"bloomsbury", "backlog", "hunter", "4111", "password"} {
		if strings.Contains(strings.ToLower(string(state)), word) {
			t.Errorf("%s holds %q", state, word)
		}
	}
	next := toolsearch.NewLearned()
	if _, err = next.Merge(state); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"triage": "tracker/close_issue", "harvest": "files/read_file", "hunter2": ""} {
		if got := first(x, query, next.Begin()); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	if again, err := next.Merge(state); err != nil || string(again) != string(state) || next.Dirty() {
		t.Errorf("merged again without changes: got %s, %v, want it unchanged", again, err)
	}
}

func TestLearnedBadState(t *testing.T) {
	x := toolsearch.New(tools())
	for _, stored := range []string{
		``, `[]`, `{"version":1`, `{"version":1,"counts":{"total":{"sessions":5}}}`, `{"version":2}`, `{"version":2,"counts":{"total":null}}`,
	} {
		l := toolsearch.NewLearned()
		if _, err := l.Merge([]byte(stored)); err != nil {
			t.Errorf("%s: got %v, want it replaced", stored, err)
		}
		use(x, l, "triage", "tracker/close_issue")
		use(x, l, "harvest", "files/read_file")
		if got := first(x, "triage", l.Begin()); got != "tracker/close_issue" {
			t.Errorf("%s: got %q, want it to learn", stored, got)
		}
	}
}

// Recent uses count more than old ones, and the state is bounded.
func TestLearnedForgets(t *testing.T) {
	x, l := toolsearch.New(tools()), toolsearch.NewLearned()
	var state []byte
	save := func() {
		var err error
		if state, err = l.Merge(state); err != nil {
			t.Fatal(err)
		}
	}
	use(x, l, "mumble", "files/read_file")
	for i := range 700 {
		use(x, l, "frobnicate "+strings.Repeat(string(rune('a'+i%26)), 2+i/26%20), "tracker/close_issue", fmt.Sprint("made/up", i))
		if i%32 == 0 {
			save()
		}
	}
	save()
	if got := first(x, "mumble", l.Begin()); got != "" {
		t.Errorf("long ago: got %q, want nothing", got)
	}
	if got := first(x, "frobnicate", l.Begin()); got != "tracker/close_issue" {
		t.Errorf("lately: got %q, want tracker/close_issue", got)
	}
	if len(state) > 100_000 {
		t.Errorf("got %d bytes, want old counts dropped", len(state))
	}
}

// A state is never stored that is too large to be read.
func TestLearnedLarge(t *testing.T) {
	x, l := toolsearch.New(tools()), toolsearch.NewLearned()
	for i := range 25 {
		use(x, l, "mumble", "files/read_file")
		use(x, l, "harvest", "files/write_file")
		s := l.Begin()
		for n := range 64 {
			s.Called(strings.Repeat("x", 100) + fmt.Sprint(i, n))
		}
	}
	state, err := l.Merge(nil)
	if err != nil {
		t.Fatal(err)
	}
	next := toolsearch.NewLearned()
	if _, err := next.Merge(state); err != nil {
		t.Fatal(err)
	}
	if got := first(x, "mumble", next.Begin()); got != "files/read_file" {
		t.Errorf("loaded from %d bytes: got %q, want the tool that was called", len(state), got)
	}
}

func TestPins(t *testing.T) {
	x, l := toolsearch.New(tools()), toolsearch.NewLearned()
	if pins := l.Pins(5); pins != nil {
		t.Errorf("nothing learned: got %v, want none", pins)
	}
	for i := range 6 {
		if i%2 == 0 {
			use(x, l, "x", "files/read_file", "files/write_file")
		} else {
			use(x, l, "x", "files/read_file", "files/read_file")
		}
	}
	got := l.Pins(5)
	if want := (toolsearch.Pin{Key: "files/read_file", Sessions: 6, Of: 6}); len(got) != 1 || got[0] != want {
		t.Errorf("got %v, want only %v, as half of the sessions are not most", got, want)
	}
}

func TestLearnedAtOnce(t *testing.T) {
	x, l := toolsearch.New(tools()), toolsearch.NewLearned()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			use(x, l, "read the file", "files/read_file")
			if _, err := l.Merge(nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

package toolsearch

import (
	"math"
	"slices"
	"sync"
)

// Session is what one client searched for and called so far. A nil Session learns nothing,
// and nothing counts by it.
type Session struct {
	learned *Learned

	mu      sync.Mutex
	queries []query  // the first, which most likely says what the task is, and the last few
	called  []string // keys in the order of their first calls
	last    string   // the key that was called last
}

// query is one search: its words, what it found, and what was called because of it.
type query struct {
	words  []string // hashes
	found  []string
	led    []string
	isTask bool // the first one: whatever is called later is called for it
}

const (
	queriesKept = 8
	callsKept   = 64
)

// Begin begins a session.
func (l *Learned) Begin() *Session { return &Session{learned: l} }

// Searched notes a search and the tools that it found.
func (s *Session) Searched(text string, found []string) {
	if s == nil {
		return
	}
	q := query{found: found}
	for _, word := range uniqueTerms(withoutPaths(text)) {
		if hash := hashOf(word); hash != "" {
			q.words = append(q.words, hash)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q.isTask = len(s.queries) == 0
	if len(s.queries) == queriesKept {
		s.queries = slices.Delete(s.queries, 1, 2)
	}
	s.queries = append(s.queries, q)
	s.learned.change(func(c *counts) {
		c.Queries++
		for _, hash := range q.words {
			c.word(hash).Queries++
		}
	})
}

// Called notes that a tool was called. The queries that found it have led to it, and so has
// the session's first.
func (s *Session) Called(key string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var by []string // hashes, of each query by itself
	led := 0
	for i := range s.queries {
		q := &s.queries[i]
		if (q.isTask || slices.Contains(q.found, key)) && !slices.Contains(q.led, key) {
			q.led = append(q.led, key)
			by, led = append(by, q.words...), led+1
		}
	}
	before, after, isNew := s.called, s.last, !slices.Contains(s.called, key) && len(s.called) < callsKept
	s.last = key
	if !isNew && led == 0 {
		return
	}
	s.learned.change(func(c *counts) {
		t := c.tool(key)
		t.Queries += float64(led)
		for _, hash := range by {
			c.word(hash).Tools[key]++
		}
		if !isNew {
			return
		}
		t.Sessions++
		if len(before) == 0 {
			c.Sessions++
		}
		for _, other := range before {
			t.With[other]++
			c.tool(other).With[key]++
		}
		if after != "" && after != key {
			c.tool(after).Next[key]++
		}
	})
	if isNew {
		s.called = append(s.called, key)
	}
}

// Weights of what was learned beside the words that a tool has, whose score for a good
// fit is 10 to 30. They are about what does best on tasks of LiveMCPBench that were not
// learned from, in coarse steps.
const (
	wordWorth   = 3  // of the logarithm of how much likelier a word makes a tool
	priorWeight = 30 // queries that the tools' share of a word is mixed with
	usesWorth   = 2  // of the logarithm of how often a tool was called for
	withWorth   = 12 // of the share of sessions with a tool called before in which this was called too
	nextWorth   = 20 // of those in which it came next
	fewSessions = 2  // added to these sessions, so that one alone says little
	sameServer  = 3  // for the tools that fit of a server that the session has used
	usedBefore  = -8 // for a tool that the session has called: its schema is known to the model
)

// evidence is what was learned and done before, for one search.
type evidence struct {
	index  *Index
	byWord map[string][]learnedTool
	uses   map[int]float32 // tool → for how often it was called for, if any word speaks for it
	with   map[int]float32 // tool → for what was called before it
	server map[int]bool    // that the session has used
	called map[int]bool
}

type learnedTool struct {
	tool  int
	worth float32
}

// evidence gathers what is known for a search for words; nil: nothing.
func (s *Session) evidence(x *Index, words []string) *evidence {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	called, last := slices.Clone(s.called), s.last
	s.mu.Unlock()
	e := &evidence{
		index: x, byWord: make(map[string][]learnedTool), uses: make(map[int]float32), with: make(map[int]float32),
		server: make(map[int]bool), called: make(map[int]bool),
	}
	l := s.learned
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, word := range words {
		e.addWord(word, &l.all)
	}
	for _, key := range called {
		if i, known := x.byKey[key]; known {
			e.called[i], e.server[x.server[i]] = true, true
		}
		if t := l.all.Tools[key]; t != nil {
			e.addWith(t.With, t.Sessions)
		}
	}
	if t := l.all.Tools[last]; t != nil {
		e.addNext(t.Next, t.Sessions)
	}
	return e
}

// addWord adds what the queries with a word have led to: how much likelier a tool is called
// for by a query with the word than by any.
func (e *evidence) addWord(word string, all *counts) {
	w := all.Words[hashOf(word)]
	if w == nil || all.Queries == 0 {
		return
	}
	share := w.Queries / all.Queries
	for key, n := range w.Tools {
		i, known := e.index.byKey[key]
		t := all.Tools[key]
		if !known || t == nil || share == 0 {
			continue
		}
		if ratio := (n + priorWeight*share) / (t.Queries + priorWeight) / share; ratio > 1 {
			e.byWord[word] = append(e.byWord[word], learnedTool{i, float32(wordWorth * math.Log(ratio))})
			e.uses[i] = float32(usesWorth * math.Log(1+t.Queries))
		}
	}
}

// addWith adds the tools that were used with one that was called.
func (e *evidence) addWith(with map[string]float64, sessions float64) {
	for key, n := range with {
		if i, known := e.index.byKey[key]; known {
			e.with[i] = max(e.with[i], float32(withWorth*n/(sessions+fewSessions)))
		}
	}
}

// addNext adds those that came next.
func (e *evidence) addNext(next map[string]float64, sessions float64) {
	for key, n := range next {
		if i, known := e.index.byKey[key]; known {
			e.with[i] += float32(nextWorth * n / (sessions + fewSessions))
		}
	}
}

// add adds the evidence to the scores of a query, or of a part of one.
func (e *evidence) add(score []float32, words []string) {
	if e == nil {
		return
	}
	spoken := make(map[int]bool)
	for _, word := range words {
		for _, t := range e.byWord[word] {
			score[t.tool] += t.worth
			spoken[t.tool] = true
		}
	}
	for i := range spoken {
		score[i] += e.uses[i]
	}
	for i := range score {
		if score[i] > 0 && e.server[e.index.server[i]] {
			score[i] += sameServer
		}
	}
	for i, worth := range e.with {
		score[i] += worth
	}
	for i := range e.called {
		score[i] = max(0, score[i]+usedBefore)
	}
}

package toolsearch

import (
	"math"
	"slices"
	"sync"
)

// Session holds what one client has searched for and called. A nil Session learns nothing and
// does not affect scores.
type Session struct {
	learned *Learned

	mu      sync.Mutex
	queries []query  // the first, which most likely describes the task, and the last few
	called  []string // keys in order of their first calls
	last    string   // key of the last call
}

// query is one search: its words, its results, and the calls that it led to.
type query struct {
	words  []string // hashes
	found  []string
	led    []string // keys
	isTask bool     // first query of the session, which leads to every later call
}

const (
	maxQueries = 8
	maxCalls   = 64
)

// Begin starts a session.
func (l *Learned) Begin() *Session { return &Session{learned: l} }

// Searched records a search and its results.
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
	if len(s.queries) == maxQueries {
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

// Called records a call of a tool. The queries that found the tool have led to it, and so has
// the session's first query.
func (s *Session) Called(key string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string // hashes, repeated for each query
	led := 0
	for i := range s.queries {
		q := &s.queries[i]
		if (q.isTask || slices.Contains(q.found, key)) && !slices.Contains(q.led, key) {
			q.led = append(q.led, key)
			words, led = append(words, q.words...), led+1
		}
	}
	before, previous, isNew := s.called, s.last, !slices.Contains(s.called, key) && len(s.called) < maxCalls
	s.last = key
	if !isNew && led == 0 {
		return
	}
	s.learned.change(func(c *counts) {
		t := c.tool(key)
		t.Queries += float64(led)
		for _, hash := range words {
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
		if previous != "" && previous != key {
			c.tool(previous).Next[key]++
		}
	})
	if isNew {
		s.called = append(s.called, key)
	}
}

// Weights of what was learned. A good match of words has a score of 10 to 30. The weights are
// in coarse steps and suit held-out tasks of LiveMCPBench.
const (
	wordWeight    = 3  // of the log of the factor by which a word makes a tool more likely
	priorWeight   = 30 // queries of the prior for a word's share of a tool's queries
	usesWeight    = 2  // of the log of the number of queries that led to a tool
	withWeight    = 12 // of the share of sessions with an earlier tool in which this one was called too
	nextWeight    = 20 // of the share of those in which it was the next new tool
	priorSessions = 2  // added to these sessions, so that one session is weak evidence
	sameServer    = 3  // for matching tools of a server that the session has used
	alreadyCalled = -8 // for a tool that the session has called: the model has its schema
)

// evidence is the learned evidence for one search.
type evidence struct {
	index  *Index
	byWord map[string][]learnedTool
	uses   map[int]float32 // tool → score for its uses, if any word is evidence for it
	with   map[int]float32 // tool → score for the tools called before it
	server map[int]bool    // servers that the session has used
	called map[int]bool    // tools that the session has called
}

type learnedTool struct {
	tool  int
	score float32
}

// evidence returns the evidence for a search for words. It is nil for a nil Session.
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

// addWord adds the tools that queries with a word have led to: the factor by which a query with
// the word is more likely to lead to the tool than any query.
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
			e.byWord[word] = append(e.byWord[word], learnedTool{i, float32(wordWeight * math.Log(ratio))})
			e.uses[i] = float32(usesWeight * math.Log(1+t.Queries))
		}
	}
}

// addWith adds the tools that were used in the same sessions as a called tool.
func (e *evidence) addWith(with map[string]float64, sessions float64) {
	for key, n := range with {
		if i, known := e.index.byKey[key]; known {
			e.with[i] = max(e.with[i], float32(withWeight*n/(sessions+priorSessions)))
		}
	}
}

// addNext adds the tools that were called next after a tool.
func (e *evidence) addNext(next map[string]float64, sessions float64) {
	for key, n := range next {
		if i, known := e.index.byKey[key]; known {
			e.with[i] += float32(nextWeight * n / (sessions + priorSessions))
		}
	}
}

// add adds the evidence to the scores of a query, or of a part of one.
func (e *evidence) add(score []float32, words []string) {
	if e == nil {
		return
	}
	supported := make(map[int]bool)
	for _, word := range words {
		for _, t := range e.byWord[word] {
			score[t.tool] += t.score
			supported[t.tool] = true
		}
	}
	for i := range supported {
		score[i] += e.uses[i]
	}
	for i := range score {
		if score[i] > 0 && e.server[e.index.server[i]] {
			score[i] += sameServer
		}
	}
	for i, v := range e.with {
		score[i] += v
	}
	for i := range e.called {
		score[i] = max(0, score[i]+alreadyCalled)
	}
}

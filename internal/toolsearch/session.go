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
	called  []string // keys
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
	c := make(counts)
	c.add(total, "", 1)
	for _, hash := range q.words {
		c.add(wordRow+hash, "", 1)
	}
	s.learned.add(c)
}

// Called records a call of a tool. The queries that found the tool have led to it, and so has
// the session's first query.
func (s *Session) Called(key string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(counts)
	for i := range s.queries {
		q := &s.queries[i]
		if (q.isTask || slices.Contains(q.found, key)) && !slices.Contains(q.led, key) {
			q.led = append(q.led, key)
			c.add(toolRow+key, queries, 1)
			for _, hash := range q.words {
				c.add(wordRow+hash, key, 1)
			}
		}
	}
	if !slices.Contains(s.called, key) && len(s.called) < maxCalls {
		c.add(toolRow+key, "", 1)
		if len(s.called) == 0 {
			c.add(total, sessions, 1)
		}
		s.called = append(s.called, key)
	}
	s.learned.add(c)
}

// Weights of what was learned. A good match of words has a score of 10 to 30. The weights are
// in coarse steps and suit held-out tasks of LiveMCPBench.
const (
	wordWeight    = 2.5 // of the log of the factor by which a word makes a tool more likely
	priorWeight   = 30  // queries of the prior for a word's share of a tool's queries
	usesWeight    = 2   // of the log of the number of queries that led to a tool
	sameServer    = 3   // for matching tools of a server that the session has used
	alreadyCalled = -8  // for a tool that the session has called: the model has its schema
)

// addLearned adds what was learned to the scores of a search for words: for each tool that
// queries with a word have led to, the factor by which such a query is more likely to lead to it
// than any query.
func (s *Session) addLearned(x *Index, words []string, score []float32) {
	if s == nil {
		return
	}
	s.mu.Lock()
	called := slices.Clone(s.called)
	s.mu.Unlock()
	l := s.learned
	l.mu.Lock()
	defer l.mu.Unlock()
	supported := make(map[int]bool)
	for _, word := range words {
		led := l.all[wordRow+hashOf(word)]
		share := led[""] / l.all[total][""]
		for key, n := range led {
			i, known := x.byKey[key]
			of := l.all[toolRow+key][queries]
			if ratio := (n + priorWeight*share) / (of + priorWeight) / share; known && ratio > 1 {
				score[i] += float32(wordWeight * math.Log(ratio))
				if !supported[i] {
					score[i] += float32(usesWeight * math.Log(1+of))
				}
				supported[i] = true
			}
		}
	}
	used := make(map[int]bool) // servers
	for _, key := range called {
		if i, known := x.byKey[key]; known {
			used[x.server[i]] = true
			score[i] = max(0, score[i]+alreadyCalled)
		}
	}
	for i := range score {
		if score[i] > 0 && used[x.server[i]] {
			score[i] += sameServer
		}
	}
}

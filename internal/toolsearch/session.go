package toolsearch

import (
	"math"
	"slices"
)

// Session holds what one client has searched for and called. A nil Session learns nothing and
// does not affect scores. The mutex of its Learned guards it.
type Session struct {
	learned *Learned
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
	for _, word := range queryTerms(text) {
		if hash := hashOf(word); hash != "" {
			q.words = append(q.words, hash)
		}
	}
	l := s.learned
	l.mu.Lock()
	defer l.mu.Unlock()
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
	l.addLocked(c)
}

// Called records a call of a tool. The queries that found the tool have led to it, and so has
// the session's first query.
func (s *Session) Called(key string) {
	if s == nil {
		return
	}
	l := s.learned
	l.mu.Lock()
	defer l.mu.Unlock()
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
		for _, other := range s.called {
			c.add(withRow+key, other, 1)
			c.add(withRow+other, key, 1)
		}
		if s.last != "" && s.last != key {
			c.add(nextRow+s.last, key, 1)
		}
		s.called = append(s.called, key)
	}
	s.last = key
	l.addLocked(c)
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

// addLearned adds to the scores of a search for words what was learned, and what the session has called.
func (s *Session) addLearned(x *Index, score []float32, words []string) {
	if s == nil {
		return
	}
	l := s.learned
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addWordsLocked(x, score, words)
	called, servers := make(map[int]bool), make(map[int]bool)
	with := make(map[int]float32) // tool → score for the tools called before it
	for _, key := range s.called {
		if i, known := x.byKey[key]; known {
			called[i], servers[x.server[i]] = true, true
		}
		of := l.all[toolRow+key][""] + priorSessions
		for other, n := range l.all[withRow+key] {
			if i, known := x.byKey[other]; known {
				with[i] = max(with[i], float32(withWeight*n/of))
			}
		}
	}
	for i := range score {
		if score[i] > 0 && servers[x.server[i]] {
			score[i] += sameServer
		}
	}
	for i, v := range with {
		score[i] += v
	}
	of := l.all[toolRow+s.last][""] + priorSessions
	for key, n := range l.all[nextRow+s.last] {
		if i, known := x.byKey[key]; known {
			score[i] += float32(nextWeight * n / of)
		}
	}
	for i := range called {
		score[i] = max(0, score[i]+alreadyCalled)
	}
}

// addWordsLocked adds to the scores that earlier queries with the words have led to the tools.
func (l *Learned) addWordsLocked(x *Index, score []float32, words []string) {
	uses := make(map[int]float32) // tool → score for its uses, if any word is evidence for it
	for _, word := range words {
		led := l.all[wordRow+hashOf(word)]
		share := led[""] / l.all[total][""]
		if !(share > 0) {
			continue
		}
		for key, n := range led {
			i, known := x.byKey[key]
			if !known {
				continue
			}
			of := l.all[toolRow+key][queries]
			// The factor by which a query with the word is more likely to lead to the tool than any query.
			if ratio := (n + priorWeight*share) / (of + priorWeight) / share; ratio > 1 {
				score[i] += float32(wordWeight * math.Log(ratio))
				uses[i] = float32(usesWeight * math.Log(1+of))
			}
		}
	}
	for i, v := range uses {
		score[i] += v
	}
}

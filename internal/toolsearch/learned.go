package toolsearch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Learned counts what agents did after searches: which words led to which tools, and which
// tools were used together. It contains no text: words are stored as hashes, and only words
// without digits. It is safe for concurrent use.
type Learned struct {
	mu    sync.Mutex
	all   counts // loaded and added
	added counts // since the last Merge
}

// counts is the persisted state.
type counts struct {
	Version  int                    `json:"version"`
	Sessions float64                `json:"sessions"` // with calls
	Queries  float64                `json:"queries"`
	Words    map[string]*wordCounts `json:"words"` // hash → counts of queries with the word
	Tools    map[string]*toolCounts `json:"tools"` // key → counts of uses
}

type wordCounts struct {
	Queries float64            `json:"queries"`
	Tools   map[string]float64 `json:"tools"` // key → queries that led to the tool
}

type toolCounts struct {
	Sessions float64            `json:"sessions"`       // in which the tool was called
	Queries  float64            `json:"queries"`        // that led to the tool
	With     map[string]float64 `json:"with,omitempty"` // key → sessions in which the other tool was called too
	Next     map[string]float64 `json:"next,omitempty"` // key → sessions in which the other tool was the next new one
}

// Limits of the state.
const (
	version   = 1
	maxWords  = 4096
	maxTools  = 1024
	halveAt   = 64      // sessions at which all counts are halved, so that recent ones weigh more
	minCount  = 0.25    // below which a halved count is dropped
	maxStored = 8 << 20 // bytes
)

func newCounts() counts {
	return counts{Version: version, Words: make(map[string]*wordCounts), Tools: make(map[string]*toolCounts)}
}

// NewLearned returns a Learned without any counts.
func NewLearned() *Learned { return &Learned{all: newCounts(), added: newCounts()} }

// Merge adds what was learned since the last call to the stored state, which another process
// may have changed, and returns the new state to store. An unreadable state is replaced.
func (l *Learned) Merge(stored []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := newCounts()
	if len(stored) > 0 && len(stored) < maxStored {
		if read := newCounts(); json.Unmarshal(stored, &read) == nil && read.Version == version {
			all.add(&read)
		}
	}
	all.add(&l.added)
	if all.Sessions >= halveAt {
		all.halve()
	}
	all.bound()
	out, err := json.Marshal(&all)
	if err != nil {
		return nil, fmt.Errorf("state of tool searches: %w", err)
	}
	l.all, l.added = all, newCounts()
	return out, nil
}

// Dirty reports whether anything was learned since the last Merge.
func (l *Learned) Dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.added.Queries > 0 || len(l.added.Tools) > 0
}

func (c *counts) word(hash string) *wordCounts {
	w := c.Words[hash]
	if w == nil {
		w = &wordCounts{Tools: make(map[string]float64)}
		c.Words[hash] = w
	}
	return w
}

func (c *counts) tool(key string) *toolCounts {
	t := c.Tools[key]
	if t == nil {
		t = &toolCounts{With: make(map[string]float64), Next: make(map[string]float64)}
		c.Tools[key] = t
	}
	return t
}

// add adds other counts. They may come from a file, so members may be missing.
func (c *counts) add(other *counts) {
	c.Sessions += other.Sessions
	c.Queries += other.Queries
	for hash, from := range other.Words {
		if from == nil {
			continue
		}
		w := c.word(hash)
		w.Queries += from.Queries
		addAll(w.Tools, from.Tools)
	}
	for key, from := range other.Tools {
		if from == nil {
			continue
		}
		t := c.tool(key)
		t.Sessions += from.Sessions
		t.Queries += from.Queries
		addAll(t.With, from.With)
		addAll(t.Next, from.Next)
	}
}

func addAll(to, from map[string]float64) {
	for key, n := range from {
		to[key] += n
	}
}

// halve halves every count and drops those below minCount.
func (c *counts) halve() {
	half := func(m map[string]float64) {
		maps.DeleteFunc(m, func(key string, n float64) bool { m[key] = n / 2; return n/2 < minCount })
	}
	c.Sessions, c.Queries = c.Sessions/2, c.Queries/2
	for hash, w := range c.Words {
		w.Queries /= 2
		if half(w.Tools); w.Queries < minCount {
			delete(c.Words, hash)
		}
	}
	for key, t := range c.Tools {
		t.Sessions, t.Queries = t.Sessions/2, t.Queries/2
		half(t.With)
		if half(t.Next); t.Sessions < minCount {
			delete(c.Tools, key)
		}
	}
}

// bound drops the words and tools with the smallest counts beyond the limits.
func (c *counts) bound() {
	keepLargest(c.Words, maxWords, func(w *wordCounts) float64 { return w.Queries })
	keepLargest(c.Tools, maxTools, func(t *toolCounts) float64 { return t.Sessions })
}

func keepLargest[V any](m map[string]V, limit int, size func(V) float64) {
	if len(m) <= limit {
		return
	}
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(size(m[b]), size(m[a])), cmp.Compare(a, b))
	})
	for _, key := range keys[limit:] {
		delete(m, key)
	}
}

// hashOf returns the hash of a word, or "" for a word that is not stored: long words and words
// with digits may identify something.
func hashOf(word string) string {
	if len(word) > 24 || strings.ContainsAny(word, "0123456789") {
		return ""
	}
	return strconv.FormatUint(xxhash.Sum64String(word), 36)
}

// change applies a change to the current counts and to those to be stored.
func (l *Learned) change(add func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add(&l.all)
	add(&l.added)
}

// Pin is a tool that is used so often that it should be listed.
type Pin struct {
	Key          string
	Sessions, Of int // it was called in Sessions of Of sessions
}

// Pins returns at most limit tools that were called in most sessions, most frequent first.
func (l *Learned) Pins(limit int) (out []Pin) {
	const minSessions = 3 // fewer are no evidence
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all.Sessions < minSessions {
		return nil
	}
	for key, t := range l.all.Tools {
		if t.Sessions > l.all.Sessions/2 && t.Sessions >= minSessions-1 {
			out = append(out, Pin{key, int(math.Round(t.Sessions)), int(math.Round(l.all.Sessions))})
		}
	}
	slices.SortFunc(out, func(a, b Pin) int { return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Key, b.Key)) })
	return out[:min(len(out), limit)]
}

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

// Learned is what agents did after they had searched, counted: which words led to which
// tools, and which tools were used together. It holds no text: words are kept as hashes, and
// only such as consist of letters alone. It may be used on any goroutine.
type Learned struct {
	mu    sync.Mutex
	all   counts // what was read, and what was added since
	added counts // since Merge was last called
}

// counts are what is kept.
type counts struct {
	Version  int                    `json:"version"`
	Sessions float64                `json:"sessions"` // in which tools were called
	Queries  float64                `json:"queries"`
	Words    map[string]*wordCounts `json:"words"` // hash → what came of queries with that word
	Tools    map[string]*toolCounts `json:"tools"` // key → its uses
}

type wordCounts struct {
	Queries float64            `json:"queries"`
	Tools   map[string]float64 `json:"tools"` // key → queries that led to it
}

type toolCounts struct {
	Sessions float64            `json:"sessions"`       // in which it was called
	Queries  float64            `json:"queries"`        // that led to it
	With     map[string]float64 `json:"with,omitempty"` // key → sessions in which that was called too
	Next     map[string]float64 `json:"next,omitempty"` // key → sessions in which that was the next new tool
}

// Bounds of what is kept.
const (
	version       = 1
	mostWords     = 4096
	mostTools     = 1024
	halvedAfter   = 64   // sessions: then all counts are halved, so that what was done lately counts more
	leastKept     = 0.25 // of a count, after it was halved
	longestStored = 8 << 20
)

func newCounts() counts {
	return counts{Version: version, Words: make(map[string]*wordCounts), Tools: make(map[string]*toolCounts)}
}

// NewLearned has learned nothing yet.
func NewLearned() *Learned { return &Learned{all: newCounts(), added: newCounts()} }

// Merge adds what was learned since the last time to what is stored, which another process
// may have added to, and returns what to store. What cannot be read is replaced.
func (l *Learned) Merge(stored []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := newCounts()
	if len(stored) > 0 && len(stored) < longestStored {
		if read := newCounts(); json.Unmarshal(stored, &read) == nil && read.Version == version {
			all.take(&read)
		}
	}
	all.take(&l.added)
	if all.Sessions >= halvedAfter {
		all.halve()
	}
	all.bound()
	out, err := json.Marshal(&all)
	if err != nil {
		return nil, fmt.Errorf("what was learned of searches: %w", err)
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

// take adds other counts. They may come from a file, so members may be missing.
func (c *counts) take(other *counts) {
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

// halve halves every count, and drops those of which too little is left.
func (c *counts) halve() {
	half := func(m map[string]float64) {
		maps.DeleteFunc(m, func(key string, n float64) bool { m[key] = n / 2; return n/2 < leastKept })
	}
	c.Sessions, c.Queries = c.Sessions/2, c.Queries/2
	for hash, w := range c.Words {
		w.Queries /= 2
		if half(w.Tools); w.Queries < leastKept {
			delete(c.Words, hash)
		}
	}
	for key, t := range c.Tools {
		t.Sessions, t.Queries = t.Sessions/2, t.Queries/2
		half(t.With)
		if half(t.Next); t.Sessions < leastKept {
			delete(c.Tools, key)
		}
	}
}

// bound drops the words and tools with the smallest counts where there are too many.
func (c *counts) bound() {
	keepMost(c.Words, mostWords, func(w *wordCounts) float64 { return w.Queries })
	keepMost(c.Tools, mostTools, func(t *toolCounts) float64 { return t.Sessions })
}

func keepMost[V any](m map[string]V, most int, worth func(V) float64) {
	if len(m) <= most {
		return
	}
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(worth(m[b]), worth(m[a])), cmp.Compare(a, b))
	})
	for _, key := range keys[most:] {
		delete(m, key)
	}
}

// hashOf is what is kept of a word; "": nothing is, as it may say more than what is wanted.
func hashOf(word string) string {
	if len(word) > 24 || strings.ContainsAny(word, "0123456789") {
		return ""
	}
	return strconv.FormatUint(xxhash.Sum64String(word), 36)
}

// change adds the same to what is known and to what is to be stored.
func (l *Learned) change(add func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add(&l.all)
	add(&l.added)
}

// Pin is a tool that is used so often that it need not be searched for.
type Pin struct {
	Key          string
	Sessions, Of int // it was called in so many of so many sessions
}

// Pins are the tools that were called in most sessions, those most often used first.
func (l *Learned) Pins(most int) (out []Pin) {
	const fewest = 3 // sessions: fewer say nothing
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all.Sessions < fewest {
		return nil
	}
	for key, t := range l.all.Tools {
		if t.Sessions > l.all.Sessions/2 && t.Sessions >= fewest-1 {
			out = append(out, Pin{key, int(math.Round(t.Sessions)), int(math.Round(l.all.Sessions))})
		}
	}
	slices.SortFunc(out, func(a, b Pin) int { return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Key, b.Key)) })
	return out[:min(len(out), most)]
}

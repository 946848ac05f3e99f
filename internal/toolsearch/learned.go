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
// tools were used together. It contains the keys of tools, but no text of queries: of their words
// it has hashes, and none of a long word or one with digits. It is safe for concurrent use.
type Learned struct {
	mu    sync.Mutex
	all   counts // loaded and added
	added counts // since the last Merge
}

// counts is a table: row → column → count. It is the persisted state.
//
//	total        ""        queries of all sessions
//	total        sessions  sessions with calls
//	word HASH    ""        queries with the word
//	word HASH    KEY       those that led to the tool
//	tool KEY     ""        sessions in which the tool was called
//	tool KEY     queries   queries that led to the tool
//	with KEY     KEY       sessions in which both tools were called
//	next KEY     KEY       sessions in which the second tool was the next new one
type counts map[string]map[string]float64

const (
	total    = "total"
	sessions = "sessions"
	queries  = "queries"
	wordRow  = "word "
	toolRow  = "tool "
	withRow  = "with "
	nextRow  = "next "
)

// Limits of the state.
const (
	halveAt   = 64      // sessions at which all counts are halved, so that recent ones weigh more
	minCount  = 0.25    // below which a halved count is dropped
	maxStored = 4 << 20 // bytes at which all counts are halved too
)

// stored is the form of the state in a file. Another version is replaced.
type stored struct {
	Version int    `json:"version"`
	Counts  counts `json:"counts"`
}

const version = 2

// NewLearned returns a Learned without any counts.
func NewLearned() *Learned { return &Learned{all: make(counts), added: make(counts)} }

// Merge adds what was learned since the last call to the stored state, which another process
// may have changed, and returns the new state to store. What it returns counts as stored. An
// unreadable state is replaced.
func (l *Learned) Merge(state []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, read := make(counts), stored{}
	if len(state) < maxStored && json.Unmarshal(state, &read) == nil && read.Version == version {
		all.merge(read.Counts)
	}
	all.merge(l.added)
	if all[total][sessions] >= halveAt {
		all.halve()
	}
	out, err := json.Marshal(stored{version, all})
	for err == nil && len(out) >= maxStored {
		all.halve()
		out, err = json.Marshal(stored{version, all})
	}
	if err != nil {
		return nil, fmt.Errorf("state of tool searches: %w", err)
	}
	l.all, l.added = all, make(counts)
	return out, nil
}

// Dirty reports whether anything was learned since the last Merge.
func (l *Learned) Dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.added) > 0
}

func (c counts) add(row, column string, n float64) {
	if c[row] == nil {
		c[row] = make(map[string]float64)
	}
	c[row][column] += n
}

func (c counts) merge(other counts) {
	for row, columns := range other {
		for column, n := range columns {
			c.add(row, column, n)
		}
	}
}

// halve halves every count and drops those below minCount.
func (c counts) halve() {
	for row, columns := range c {
		maps.DeleteFunc(columns, func(column string, n float64) bool { columns[column] = n / 2; return n/2 < minCount })
		if len(columns) == 0 {
			delete(c, row)
		}
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

// addLocked adds counts to the current state and to the one to be stored.
func (l *Learned) addLocked(c counts) {
	l.all.merge(c)
	l.added.merge(c)
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
	of := l.all[total][sessions]
	if of < minSessions {
		return nil
	}
	for row, columns := range l.all {
		key, isTool := strings.CutPrefix(row, toolRow)
		if n := columns[""]; isTool && n > of/2 && n >= minSessions-1 {
			out = append(out, Pin{key, int(math.Round(n)), int(math.Round(of))})
		}
	}
	slices.SortFunc(out, func(a, b Pin) int { return cmp.Or(cmp.Compare(b.Sessions, a.Sessions), cmp.Compare(a.Key, b.Key)) })
	return out[:min(len(out), limit)]
}

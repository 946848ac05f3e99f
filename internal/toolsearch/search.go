package toolsearch

import (
	"cmp"
	"slices"

	"mcpschedd/internal/nearest"
)

// Hit is a tool in the result of a search.
type Hit struct {
	Key   string
	Score float64 // comparable within one search
}

const (
	maxTerms      = 48  // terms of a query
	synonymWeight = 0.5 // relative to the word itself
	serverWeight  = 0.4 // of the mean score of a server's three best tools
)

// Search returns the tools that match the query, best first, at most limit. It uses what was
// learned and what the session did, unless s is nil. A query without words has no hits.
func (x *Index) Search(query string, limit int, s *Session) []Hit {
	words := queryTerms(query)
	if len(words) == 0 { // what the session has called is not what the query asks for
		return nil
	}
	score, best := make([]float32, len(x.tools)), make([]float32, len(x.tools))
	for _, word := range words {
		clear(best)
		for term, weight := range x.expansions(word) {
			weight *= x.idf(term)
			for _, p := range x.postings[term] {
				best[p.tool] = max(best[p.tool], weight*p.freq)
			}
		}
		for i, v := range best {
			score[i] += v
		}
	}
	x.addServers(score)
	s.addLearned(x, score, words)
	var hits []Hit
	for i, v := range score {
		if v > 0 {
			hits = append(hits, Hit{x.tools[i].Key, float64(v)})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(len(hits), limit)]
}

// expansions returns the terms that a word of a query may stand for, with their weights: the word
// itself and its synonyms, or, if no tool has any of them, the nearest term within one or two edits.
func (x *Index) expansions(word string) map[string]float32 {
	out, weight := make(map[string]float32), float32(1)
	if x.postings[word] != nil {
		out[word], weight = 1, synonymWeight
	}
	for _, other := range synonyms()[word] {
		if x.postings[other] != nil {
			out[other] = max(out[other], weight)
		}
	}
	if len(out) > 0 || len(word) < 5 || word[0] > 'z' {
		return out
	}
	allowed := 1
	if len(word) >= 8 {
		allowed = 2
	}
	best, distance := "", allowed+1
	for size := len(word) - allowed; size <= len(word)+allowed; size++ {
		for _, term := range x.similar[similarKey{word[0], size}] {
			if d := nearest.Edits(word, term); d < distance || d == distance && term < best {
				best, distance = term, d
			}
		}
	}
	if distance <= allowed {
		out[best] = 1
	}
	return out
}

// addServers adds a share of the server's best scores to each matching tool: a server with
// several matching tools is more likely the right one.
func (x *Index) addServers(score []float32) {
	best := make([][3]float32, x.servers)
	for i, v := range score {
		top := &best[x.server[i]]
		for at := range top {
			if v > top[at] {
				v, top[at] = top[at], v
			}
		}
	}
	for i := range score {
		if top := best[x.server[i]]; score[i] > 0 {
			score[i] += serverWeight * (top[0] + top[1] + top[2]) / 3
		}
	}
}

// queryTerms returns the distinct terms of a query.
func queryTerms(query string) (out []string) {
	for _, word := range terms(withoutPaths(query)) {
		if len(out) < maxTerms && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

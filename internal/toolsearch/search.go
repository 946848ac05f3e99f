package toolsearch

import (
	"cmp"
	"slices"
)

// Hit is a tool in the result of a search.
type Hit struct {
	Key   string
	Score float64 // comparable within one search
}

const (
	maxTerms      = 48  // terms of a query
	synonymWeight = 0.5 // relative to the word itself, if any tool has it
	serverWeight  = 0.4 // of the mean score of a server's three best tools
)

// Search returns the tools that match the query, best first, at most limit. It uses what was
// learned and what the session did, unless s is nil. A query without words has no hits.
func (x *Index) Search(query string, limit int, s *Session) []Hit {
	words := uniqueTerms(withoutPaths(query))
	score := x.score(words)
	s.addLearned(x, words, score)
	var hits []Hit
	for i, v := range score {
		if v > 0 {
			hits = append(hits, Hit{x.tools[i].Key, float64(v)})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(len(hits), limit)]
}

// score returns the score of each tool for the words.
func (x *Index) score(words []string) []float32 {
	score, best := make([]float32, len(x.tools)), make([]float32, len(x.tools))
	for _, word := range words {
		clear(best)
		raise := func(term string, weight float32) {
			weight *= x.idf(term)
			for _, p := range x.postings[term] {
				best[p.tool] = max(best[p.tool], weight*p.freq)
			}
		}
		weight := float32(1)
		if raise(word, weight); x.postings[word] != nil {
			weight = synonymWeight
		}
		for _, other := range synonyms()[word] {
			raise(other, weight)
		}
		for i, v := range best {
			score[i] += v
		}
	}
	x.addServers(score)
	return score
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

// uniqueTerms returns the distinct terms of a query.
func uniqueTerms(query string) (out []string) {
	for _, word := range terms(query) {
		if len(out) < maxTerms && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

package toolsearch

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"mcpschedd/internal/nearest"
)

// Hit is a tool that was found.
type Hit struct {
	Key   string
	Score float64 // comparable within one search
}

const (
	mostTerms    = 48  // of a query that are looked for
	mostParts    = 8   // of a query that are looked for by themselves
	synonymWorth = 0.5 // of the word itself
	typoWorth    = 0.8
	partWorth    = 0.4 // of the best part of a query, beside the whole
	serverWorth  = 0.4 // of what a server's three best tools score on average
)

// Search returns the tools that the query may mean, the likeliest first. What was learned
// and what the session did before count too; nil: neither does. One without words finds nothing.
func (x *Index) Search(query string, limit int, s *Session) []Hit {
	query = withoutPaths(query)
	words := uniqueTerms(query)
	learned, known := s.evidence(x, words), make(map[string][]meaning)
	score := x.score(words, known, learned)
	if parts := partsOf(query); len(parts) > 1 {
		scaled(score, highest(score))
		best := make([]float32, len(x.tools))
		for _, part := range parts {
			of := x.score(uniqueTerms(part), known, learned)
			scaled(of, highest(of))
			for i, v := range of {
				best[i] = max(best[i], v)
			}
		}
		for i := range score {
			score[i] = (1-partWorth)*score[i] + partWorth*best[i]
		}
	}
	var hits []Hit
	for i, v := range score {
		if v > 0 {
			hits = append(hits, Hit{x.tools[i].Key, float64(v)})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(len(hits), limit)]
}

// score is how well each tool fits the words. known are meanings of words that were looked up
// before.
func (x *Index) score(words []string, known map[string][]meaning, learned *evidence) []float32 {
	score, of := make([]float32, len(x.tools)), make([]float32, len(x.tools))
	for _, word := range words {
		meanings, looked := known[word]
		if !looked {
			meanings = x.meanings(word)
			known[word] = meanings
		}
		if len(meanings) == 1 {
			for _, p := range x.found[meanings[0].term] {
				score[p.tool] += x.weight[meanings[0].term] * p.much
			}
			continue
		}
		clear(of)
		for _, m := range meanings {
			for _, p := range x.found[m.term] {
				of[p.tool] = max(of[p.tool], m.worth*x.weight[m.term]*p.much)
			}
		}
		for i, v := range of {
			score[i] += v
		}
	}
	x.addServers(score)
	learned.add(score, words)
	return score
}

// meaning is a term that a word of a query may stand for.
type meaning struct {
	term  int
	worth float32
}

// meanings are the terms that a word stands for: itself, its synonyms, and, where no tool has
// it, those a letter or two away.
func (x *Index) meanings(word string) (out []meaning) {
	id, known := x.ids[word]
	if known {
		out = append(out, meaning{id, 1})
	}
	for _, other := range synonyms()[word] {
		if id, known := x.ids[other]; known {
			out = append(out, meaning{id, synonymWorth})
		}
	}
	if known || len(word) < 5 || word[0] > 'z' {
		return out
	}
	allowed := 1
	if len(word) >= 8 {
		allowed = 2
	}
	best, distance := -1, allowed+1
	for size := len(word) - allowed; size <= len(word)+allowed; size++ {
		for _, id := range x.alike[alike{word[0], size}] {
			if d := nearest.Edits(word, x.terms[id]); d < distance {
				best, distance = id, d
			}
		}
	}
	if best >= 0 {
		out = append(out, meaning{best, typoWorth})
	}
	return out
}

// addServers adds to the tools that fit a share of what the best of their server do: a server
// of which several fit is more likely the one that is meant.
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
			score[i] += serverWorth * (top[0] + top[1] + top[2]) / 3
		}
	}
}

func highest(score []float32) float32 {
	if len(score) == 0 {
		return 0
	}
	return slices.Max(score)
}

// scaled brings scores of queries of different lengths nearer to each other.
func scaled(score []float32, top float32) {
	if top <= 0 {
		return
	}
	by := float32(1 / math.Sqrt(float64(top)))
	for i := range score {
		score[i] *= by
	}
}

// uniqueTerms are the terms of a query, each once.
func uniqueTerms(query string) (out []string) {
	for _, word := range terms(query) {
		if len(out) < mostTerms && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// partsOf divides a query that asks for several things: at the ends of sentences and clauses.
func partsOf(query string) (out []string) {
	for sentence := range strings.FieldsFuncSeq(query, func(r rune) bool { return strings.ContainsRune(";:!?\n，。；：！？", r) }) {
		for _, by := range []string{". ", ", ", " and ", " then "} {
			sentence = strings.ReplaceAll(sentence, by, "\x00")
		}
		for part := range strings.SplitSeq(sentence, "\x00") {
			if len(out) < mostParts && len(terms(part)) >= 2 {
				out = append(out, part)
			}
		}
	}
	return out
}

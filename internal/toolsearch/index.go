// Package toolsearch searches the tools of many servers for a request in plain words.
//
// A tool is a short document of a few fields, ranked by BM25F (Robertson and Zaragoza, "The
// Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.6): the frequency of a
// word in a field is weighted by the field's weight and length, and the sum over all fields is
// saturated. So a description that repeats words, or has many, gains little. The calls that
// followed earlier searches are counted and add to the score.
//
//	index := toolsearch.New(tools)
//	hits := index.Search("close the ticket", 5, session)
//	session.Searched("close the ticket", keys)
//	session.Called("tracker/close_issue") // later searches for these words rank it higher
//
// Servers' texts are only compared. The package does not know which tools a client may call.
package toolsearch

import (
	"math"
	"strings"
)

// Tool holds the searched texts of a tool.
type Tool struct {
	Key         string   // permanent key of the tool
	Name, Title string   // from its server
	Description string   // from its server
	Parameters  []string // names of its arguments
	Server      string   // its server's name
	About       string   // title, description and instructions of the server
}

// Index is an immutable search index.
type Index struct {
	tools    []Tool
	server   []int                   // tool → number of its server
	servers  int                     // number of servers
	postings map[string][]posting    // term → tools with the term
	byKey    map[string]int          // key → tool
	similar  map[similarKey][]string // terms
}

// posting is a tool with a term, and the term's saturated frequency.
type posting struct {
	tool int32
	freq float32
}

// similarKey groups terms for the correction of typos: by first letter and length.
type similarKey struct {
	first byte
	size  int
}

// field is a part of a tool's text, with its weight and its length normalisation b. The weights
// are in coarse steps; the ratio of names and descriptions suits LiveMCPBench, where other
// weights change recall by some hundredths.
type field struct {
	weight, b float64
	text      func(*Tool) string
}

var fields = []field{
	{3, 0.3, func(t *Tool) string { return t.Name + " " + t.Title }},
	{1, 0.5, func(t *Tool) string { return firstSentence(t.Description) }},
	{0.3, 0.7, func(t *Tool) string { return t.Description }},
	{0.4, 0.7, func(t *Tool) string { return strings.Join(t.Parameters[:min(len(t.Parameters), 64)], " ") }},
	{0.5, 0.3, func(t *Tool) string { return t.Server }},
	{0.4, 0.7, func(t *Tool) string { return t.About }},
}

// saturation is BM25's k1: the score of a term approaches 1+k1 times that of one occurrence.
const saturation = 1.2

// New returns an index of the tools.
func New(tools []Tool) *Index {
	x := &Index{tools: tools, postings: make(map[string][]posting), byKey: make(map[string]int), similar: make(map[similarKey][]string)}
	parts, mean := make([][][]string, len(tools)), make([]float64, len(fields)) // terms of each tool's fields; mean length of each field
	servers := make(map[string]int)
	for i := range tools {
		x.byKey[tools[i].Key] = i
		number, ok := servers[tools[i].Server]
		if !ok {
			number = len(servers)
			servers[tools[i].Server] = number
		}
		x.server = append(x.server, number)
		for f := range fields {
			words := terms(fields[f].text(&tools[i]))
			parts[i] = append(parts[i], words)
			mean[f] += float64(len(words)) / float64(len(tools))
		}
	}
	x.servers = len(servers)
	for i := range tools {
		x.add(i, parts[i], mean)
	}
	return x
}

// add adds a tool's terms.
func (x *Index) add(tool int, parts [][]string, mean []float64) {
	freq := make(map[string]float64)
	for f, words := range parts {
		for _, word := range words {
			freq[word] += fields[f].weight / (1 - fields[f].b + fields[f].b*float64(len(words))/mean[f])
		}
	}
	for word, n := range freq {
		if x.postings[word] == nil {
			key := similarKey{word[0], len(word)}
			x.similar[key] = append(x.similar[key], word)
		}
		x.postings[word] = append(x.postings[word], posting{int32(tool), float32(n * (saturation + 1) / (n + saturation))})
	}
}

// idf returns the inverse document frequency of a term.
func (x *Index) idf(term string) float32 {
	n, all := float64(len(x.postings[term])), float64(len(x.tools))
	return float32(math.Log(1 + (all-n+0.5)/(n+0.5)))
}

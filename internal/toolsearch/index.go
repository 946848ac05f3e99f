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
	server   []int                // tool → number of its server
	servers  int                  // number of servers
	ids      map[string]int       // term → id
	terms    []string             // id → term
	postings [][]posting          // id → tools with the term
	idf      []float32            // id → inverse document frequency
	byKey    map[string]int       // key → tool
	similar  map[similarKey][]int // ids
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
	x := &Index{tools: tools, ids: make(map[string]int), byKey: make(map[string]int), similar: make(map[similarKey][]int)}
	parts, mean := x.fieldTerms()
	servers := make(map[string]int)
	for i := range tools {
		x.byKey[tools[i].Key] = i
		number, known := servers[tools[i].Server]
		if !known {
			number = len(servers)
			servers[tools[i].Server] = number
		}
		x.server = append(x.server, number)
		x.add(i, parts[i], mean)
	}
	x.servers = len(servers)
	for _, list := range x.postings {
		n, all := float64(len(list)), float64(len(tools))
		x.idf = append(x.idf, float32(math.Log(1+(all-n+0.5)/(n+0.5))))
	}
	return x
}

// fieldTerms returns the terms of each tool's fields, and the mean length of each field.
func (x *Index) fieldTerms() (parts [][][]string, mean []float64) {
	parts, mean = make([][][]string, len(x.tools)), make([]float64, len(fields))
	shared := make(map[string][]string) // texts of a server, which all of its tools share
	for i := range x.tools {
		for f := range fields {
			text := fields[f].text(&x.tools[i])
			words, known := shared[text]
			if !known {
				words = terms(text)
				if f >= 4 {
					shared[text] = words
				}
			}
			parts[i] = append(parts[i], words)
			mean[f] += float64(len(words)) / float64(len(x.tools))
		}
	}
	return parts, mean
}

// add adds a tool's terms.
func (x *Index) add(tool int, parts [][]string, mean []float64) {
	freq := make(map[string]float64)
	for f, words := range parts {
		if len(words) == 0 {
			continue
		}
		weight := fields[f].weight / (1 - fields[f].b + fields[f].b*float64(len(words))/mean[f])
		for _, word := range words {
			freq[word] += weight
		}
	}
	for word, n := range freq {
		id, known := x.ids[word]
		if !known {
			id = len(x.postings)
			x.ids[word], x.terms, x.postings = id, append(x.terms, word), append(x.postings, nil)
			key := similarKey{word[0], len(word)}
			x.similar[key] = append(x.similar[key], id)
		}
		x.postings[id] = append(x.postings[id], posting{int32(tool), float32(n * (saturation + 1) / (n + saturation))})
	}
}

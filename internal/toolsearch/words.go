package toolsearch

import (
	_ "embed"
	"strings"
	"sync"
)

//go:embed stopwords.txt
var stopWordsFile string

// stopWords holds words that do not describe a tool.
var stopWords = sync.OnceValue(func() map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(stopWordsFile) {
		set[word] = true
	}
	return set
})

//go:embed synonyms.txt
var synonymsFile string

// synonyms maps each stem to the other stems of its lines: words that queries and servers use for
// the same thing. They are mostly verbs, and things that many servers have. Words of a special
// field are included only if they find tools of LiveMCPBench.
var synonyms = sync.OnceValue(func() map[string][]string {
	out := make(map[string][]string)
	for line := range strings.Lines(synonymsFile) {
		words := strings.Fields(line)
		for i, word := range words {
			for j, other := range words {
				if i != j {
					out[stem(word)] = append(out[stem(word)], stem(other))
				}
			}
		}
	}
	return out
})

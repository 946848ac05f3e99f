package toolsearch

import (
	"strings"
	"sync"
)

// stopWords holds words that do not describe a tool.
var stopWords = sync.OnceValue(func() map[string]bool {
	return setOf(`a an and are as at be by can do does for from has have help how i if in into is it its me my no
	not of on one or our please so some than that the their them then there these they this those to up use used uses
	using was we what when where which who will with you your`)
})

// synonyms holds groups of stems that queries and servers use for the same thing: mostly verbs,
// and things that many servers have. Words of a special field are included only if they find
// tools of LiveMCPBench.
var synonyms = sync.OnceValue(func() map[string][]string {
	return groups(`
	open read view load
	write save store append add
	create make generate build produce add
	picture image photo png jpg
	doc docx document word
	find search lookup query discover locate
	convert transform export turn
	calculate compute
	delete remove
	list enumerate
	web webpage website url page site browser
	ppt pptx powerpoint presentation slide
	spreadsheet excel xlsx sheet workbook
	download fetch retrieve get
	chart plot graph diagram
	paper article publication
	folder directory
	mail email message
	run execute command shell terminal
	edit update modify change
	repo repository
	issue ticket bug
	merge combine join
	txt text
	restaurant food meal recipe dish`)
})

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// groups maps each stem to the other stems of its lines.
func groups(lines string) map[string][]string {
	out := make(map[string][]string)
	for line := range strings.Lines(lines) {
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
}

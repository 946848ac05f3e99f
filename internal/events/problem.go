package events

import (
	"strconv"
	"strings"
	"unicode"
)

// Problem is something in a file that could not be read. Files are not to be trusted:
// their names and what stands in them may hold what a terminal obeys, so Text and
// Error are escaped as in Go.
type Problem struct {
	File string // as it is; Error shows it escaped
	Line int    // from 1; 0: the file as a whole
	Text string
}

func (p Problem) Error() string {
	at := p.File
	if p.Line > 0 {
		at += ":" + strconv.Itoa(p.Line)
	}
	return shown(at + ": " + p.Text)
}

// maxProblems is how many bad lines of one file are told of one by one.
const maxProblems = 5

// shown escapes what cannot be printed, and what turns the direction of writing. Bytes
// that are no UTF-8 become U+FFFD: there are terminals that obey them.
func shown(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

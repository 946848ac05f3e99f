package plan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"mcpschedd/internal/excerpt"
)

// Defect is one thing wrong with a plan.
type Defect struct {
	Step    string // id; "": of no step
	Pointer string // JSON pointer into the plan
	Message string // what is wrong, and what was expected
}

// Defects are all that is wrong with a plan, in its order.
type Defects []Defect

const (
	shownDefects = 50   // in an error
	shownLine    = 400  // characters of one
	shownName    = 80   // characters of a name within one
	mostDefects  = 1000 // found at most: after so many the rest is not looked for
)

// String is the defect in one line, whatever characters the plan has in its names.
func (d Defect) String() string {
	var line strings.Builder
	if d.Step != "" {
		line.WriteString("step " + quoted(d.Step))
	}
	if d.Pointer != "" {
		if line.Len() > 0 {
			line.WriteByte(' ')
		}
		line.WriteString("at " + d.Pointer)
	}
	if line.Len() > 0 {
		line.WriteString(": ")
	}
	line.WriteString(d.Message)
	return oneLine(line.String(), shownLine)
}

// Error is all of them, one a line, under a line that says how many there are.
// Of more than 50 it says how many are not shown.
func (d Defects) Error() string {
	var text strings.Builder
	things := "things are"
	if len(d) == 1 {
		things = "thing is"
	}
	fmt.Fprintf(&text, "nothing was run: %d %s wrong", len(d), things)
	for i, one := range d {
		if i == shownDefects {
			fmt.Fprintf(&text, "\nand %d more", len(d)-i)
			break
		}
		text.WriteString("\n" + one.String())
	}
	return text.String()
}

// oneLine is text without line ends or anything else that does not print.
func oneLine(text string, most int) string {
	var line strings.Builder
	for _, c := range excerpt.Shorten(text, most) {
		if unicode.IsPrint(c) {
			line.WriteRune(c)
			continue
		}
		q := strconv.QuoteRune(c)
		line.WriteString(q[1 : len(q)-1])
	}
	return line.String()
}

// kindOf is what a JSON value is, with its article.
func kindOf(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

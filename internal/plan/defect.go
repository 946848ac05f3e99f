package plan

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"mcpschedd/internal/excerpt"
)

// Defect is one error in a plan.
type Defect struct {
	Step    string // step id; empty if it concerns no step
	Pointer string // JSON pointer into the plan
	Message string // the error and what was expected
}

// Defects are all errors in a plan, in its order.
type Defects []Defect

const (
	maxShownDefects = 50   // defects shown by Error
	maxLine         = 400  // characters of a shown defect
	maxShownName    = 80   // characters of a name in it
	maxDefects      = 1000 // parsing stops after this many
)

// String returns the defect as one printable line.
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
	return oneLine(line.String(), maxLine)
}

// Error returns the number of defects and the first 50, one per line.
func (d Defects) Error() string {
	var text strings.Builder
	things := "things are"
	if len(d) == 1 {
		things = "thing is"
	}
	fmt.Fprintf(&text, "nothing was run: %d %s wrong", len(d), things)
	for i, one := range d {
		if i == maxShownDefects {
			fmt.Fprintf(&text, "\nand %d more", len(d)-i)
			break
		}
		text.WriteString("\n" + one.String())
	}
	return text.String()
}

// oneLine truncates text and escapes line ends and other unprintable characters.
func oneLine(text string, limit int) string {
	var line strings.Builder
	for _, c := range excerpt.Shorten(text, limit) {
		if unicode.IsPrint(c) {
			line.WriteRune(c)
			continue
		}
		q := strconv.QuoteRune(c)
		line.WriteString(q[1 : len(q)-1])
	}
	return line.String()
}

// kindOf returns the type of a JSON value with its article.
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

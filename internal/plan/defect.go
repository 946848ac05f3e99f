package plan

import (
	"fmt"
	"strings"

	"mcpschedd/internal/excerpt"
)

// Defect is one error in a plan.
type Defect struct {
	Step    string // step id; empty if it concerns no step
	Pointer string // JSON pointer into the plan
	Message string // the error and what was expected
	index   int    // index of the step, by which defects are sorted
}

// Defects are the errors in a plan, in its order.
type Defects []Defect

// maxLine is the maximum number of bytes of a defect.
const maxLine = 400

// String returns the defect as one printable line.
func (d Defect) String() string {
	text := d.Message
	if d.Pointer != "" {
		text = "at " + d.Pointer + ": " + text
	}
	if d.Step != "" {
		text = fmt.Sprintf("step %s %s", quoted(d.Step), text)
	}
	return escapeInvisible(excerpt.Shorten(text, maxLine))
}

// Error returns all defects, one per line.
func (d Defects) Error() string {
	lines := []string{"nothing was run:"}
	for _, one := range d {
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "\n")
}

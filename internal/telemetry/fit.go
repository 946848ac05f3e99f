package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Fit is the text of WriteTo for a terminal of so many columns and lines; 0 is any
// number. Lines are wrapped, and of the table so many columns are left as there is room
// for. Where lines are few, what is said in words goes first: the report line, then how
// the figures came about, then all of it but the waiting.
func (s *Stats) Fit(columns, lines int) string {
	if f := &s.Totals; f.Calls+f.Prefetch.Issued+f.Prefetch.Open+f.Plans == 0 {
		return "no calls so far\n"
	}
	report, result, guesses := s.Line(), s.result(), s.guesses()
	rows := slices.Concat(result, guesses)
	for _, head := range []string{
		paragraph(report, columns) + listOf(rows, columns), listOf(rows, columns), listOf(result, columns), listOf(result[:1], columns),
	} {
		room := lines - strings.Count(head, "\n") - 2 // a blank line, and the table's own head
		if lines <= 0 {
			room = mostRows + 1
		}
		if room >= min(len(s.Tools), fewestRows) {
			return head + s.table(columns, room)
		}
	}
	return s.table(columns, max(lines-1, 1))[1:] // there is no room but for that
}

// fewestRows of tools are shown before anything else is left out.
const fewestRows = 3

// paragraph is a text in lines, and an empty one behind it; "" is none.
func paragraph(text string, columns int) string {
	if text == "" {
		return ""
	}
	return strings.Join(Wrap(text, columns, 0), "\n") + "\n\n"
}

// listOf are rows with their names in a column of their own, if that is not too much.
func listOf(rows []row, columns int) string {
	names := 0
	for _, r := range rows {
		names = max(names, len(r.name)+2)
	}
	if columns > 0 && columns < 3*names {
		names = 2
	}
	var b strings.Builder
	for _, r := range rows {
		first := fmt.Sprintf("%-*s", names, r.name)
		if len(first) > names {
			first += "  "
		}
		b.WriteString(strings.Join(Wrap(first+r.text, columns, names), "\n") + "\n")
	}
	return b.String()
}

// table is that of the tools, in as many columns and lines as there is room for.
func (s *Stats) table(columns, lines int) string {
	if len(s.Tools) == 0 {
		return ""
	}
	shown := min(len(s.Tools), mostRows, lines)
	if shown < len(s.Tools) && shown == lines && lines > 1 {
		shown-- // for the line that says so
	}
	cells := s.slowest(shown)
	wide := fitted(cells, columns)
	var b strings.Builder
	for n, line := range cells {
		b.WriteString("\n")
		for i, w := range wide {
			text := line[i]
			if i == 0 && n > 0 {
				text = endOf(text, w)
			}
			if i < len(wide)-1 {
				text += strings.Repeat(" ", max(w-Columns(text), 0)+2)
			}
			b.WriteString(text)
		}
	}
	b.WriteString("\n")
	if more := len(s.Tools) - shown; more > 0 && lines > 1 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}

// Of a table that is too wide: as many columns go from its end as it takes for names to
// be whole, down to what is needed of it; what names lack then is taken from them.
const (
	neededColumns = 4
	shortestName  = 12
)

// fitted are the widths of those columns that there is room for.
func fitted(cells [][]string, columns int) []int {
	wide := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, text := range line {
			wide[i] = max(wide[i], Columns(text))
		}
	}
	if columns <= 0 {
		return wide
	}
	name := func() int { // what is left for it
		left := columns
		for _, w := range wide[1:] {
			left -= w + 2
		}
		return left
	}
	for len(wide) > 1 && (name() < min(wide[0], shortestName) || len(wide) > neededColumns && name() < wide[0]) {
		wide = wide[:len(wide)-1]
	}
	wide[0] = min(wide[0], max(name(), 1))
	return wide
}

// endOf is a name in so many columns: without its beginning, for a tool's own name is
// at the end.
func endOf(name string, columns int) string {
	if Columns(name) <= columns {
		return name
	}
	letters := []rune(name)
	for len(letters) > 0 && Columns(string(letters))+1 > columns {
		letters = letters[1:]
	}
	return "…" + string(letters)
}

// Wrap breaks a text into lines of at most so many columns, at spaces where that can be
// done; 0 is any number. Lines but the first begin with so many spaces, if that leaves
// half of the line.
func Wrap(text string, columns, indent int) []string {
	if columns <= 0 {
		return []string{text}
	}
	if indent > columns/2 {
		indent = 0
	}
	var lines []string
	for {
		line, rest := broken(text, columns)
		lines = append(lines, line)
		if rest == "" {
			return lines
		}
		text = strings.Repeat(" ", indent) + rest
	}
}

// broken is what of a text fits into a line, and the rest.
func broken(text string, columns int) (line, rest string) {
	at, space, n := 0, -1, 0
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if n += columnsOf(r); n > columns && at > 0 {
			break
		}
		if r == ' ' && strings.Trim(text[:at], " ") != "" {
			space = at
		}
		at += size
	}
	if at == len(text) {
		return text, ""
	}
	if text[at] == ' ' {
		space = at
	}
	if space > 0 {
		return strings.TrimRight(text[:space], " "), strings.TrimLeft(text[space:], " ")
	}
	return text[:at], text[at:]
}

// Columns is how many columns of a terminal a text takes.
func Columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0 // it stands on the letter before it
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

package valuemodel

import (
	"slices"
	"strings"
)

// shellCommand is a command that reads, with the options that leave it so. An
// option that is not listed is refused: most write options have many spellings.
type shellCommand struct {
	flags    string                                 // short options without a value, which may be clustered
	valued   string                                 // short options with a value
	long     string                                 // long options between spaces: name, name= with a value, name? with one after = only
	operands int                                    // at most
	files    int                                    // operands without which it would read the standard input
	also     func(a shellArgs) bool                 // what else must hold
	own      func(words []shellWord, fed bool) bool // instead of all that
}

const anyNumber = 1 << 20 // of operands

// shellArgs is a command's arguments, sorted.
type shellArgs struct {
	options  []string // without dashes and values
	operands []shellWord
	before   int  // operands in front of --
	fed      bool // the standard input is another command's output
}

func (a shellArgs) has(names ...string) bool {
	return slices.ContainsFunc(a.options, func(o string) bool { return slices.Contains(names, o) })
}

// reads says whether the command reads when it is called with these words.
func (c shellCommand) reads(words []shellWord, fed bool) bool {
	if c.own != nil {
		return c.own(words, fed)
	}
	a, ok := c.sort(words)
	a.fed = fed
	if !ok || len(a.operands) > c.operands || !fed && len(a.operands) < c.files {
		return false
	}
	for _, w := range a.operands {
		// The number of operands counts where it is limited, and - is the
		// standard input, which may be that of the server.
		if w.glob && c.operands != anyNumber || w.text == "-" && !fed {
			return false
		}
	}
	return c.also == nil || c.also(a)
}

// sort tells options from operands; ok is false if one is not listed. An option
// may stand behind an operand, as for GNU's commands; for others it is a file.
func (c shellCommand) sort(words []shellWord) (a shellArgs, ok bool) {
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w.text == "--":
			a.before = len(a.operands)
			a.operands = append(a.operands, words...)
			// Some versions of sort look for -o behind it as well.
			return a, !slices.ContainsFunc(words, func(w shellWord) bool { return !w.operand() })
		case w.text == "-" || w.operand():
			a.operands = append(a.operands, w)
			continue
		case w.text[0] == '+':
			return a, false
		}
		option := c.short
		if strings.HasPrefix(w.text, "--") {
			option = c.longOption
		}
		names, needsValue, ok := option(w.text)
		if !ok {
			return a, false
		}
		a.options = append(a.options, names...)
		if needsValue {
			if len(words) == 0 || words[0].glob || !optionValue(words[0].text) {
				return a, false
			}
			words = words[1:]
		}
	}
	a.before = len(a.operands)
	return a, true
}

// optionValue reports whether a word is a value for all versions of a command:
// one that knows the option without a value must not find an option there.
func optionValue(s string) bool {
	return s == "" || s[0] != '-' || len(s) > 1 && onlyOf(s[1:], "0123456789")
}

func (c shellCommand) short(word string) (names []string, needsValue, ok bool) {
	for i := 1; i < len(word); i++ {
		name := word[i : i+1]
		names = append(names, name)
		switch {
		case strings.Contains(c.flags, name):
		case strings.Contains(c.valued, name):
			return names, i+1 == len(word), optionValue(word[i+1:])
		default:
			return nil, false, false
		}
	}
	return names, false, true
}

func (c shellCommand) longOption(word string) (names []string, needsValue, ok bool) {
	name, value, given := strings.Cut(word[len("--"):], "=")
	for listed := range strings.FieldsSeq(c.long) {
		bare := strings.TrimRight(listed, "=?")
		if bare != name {
			continue
		}
		takes, must := bare != listed, strings.HasSuffix(listed, "=")
		return []string{name}, must && !given, (takes || !given) && optionValue(value)
	}
	return nil, false, false
}

package classify

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// command is an entry of commands.toml, which documents the fields: a command that only
// reads as long as it has no options other than these.
type command struct {
	Names    []string
	Flags    string
	Valued   string
	Apart    string
	Long     string
	Shared   []string
	Words    bool
	Literal  bool
	Operands *int
	Files    int
	First    *regexp.Regexp
	Early    bool
}

//go:embed commands.toml
var commandsTOML string

// commands returns the table: name → entries.
var commands = sync.OnceValue(func() map[string][]command {
	var table struct {
		Command []command
		Shared  map[string]string // name → long options
	}
	if _, err := toml.Decode(commandsTOML, &table); err != nil {
		panic(err) // a test decodes it
	}
	byName := make(map[string][]command)
	for _, c := range table.Command {
		for _, list := range c.Shared {
			c.Long += " " + table.Shared[list]
		}
		for _, name := range c.Names {
			byName[name] = append(byName[name], c)
		}
	}
	return byName
})

// lookup returns the entries with the longest name that a command line begins with, and the
// words after it. So `git config --get` can have entries although `git config` has none.
func lookup(words []word) (entries []command, rest []word) {
	const longest = 4 // words of a name
	name := ""
	for i, w := range words[:min(len(words), longest)] {
		if strings.Contains(w.text, " ") { // it is one word, and a name has several
			break
		}
		name = strings.TrimPrefix(name+" "+w.text, " ")
		if found := commands()[name]; found != nil {
			entries, rest = found, words[i+1:]
		}
	}
	return entries, rest
}

// reads reports whether the command, called with these words, only reads. fed means that its
// standard input is another command's output.
func (c command) reads(words []word, fed bool) bool {
	if c.Literal {
		return true
	}
	operands, ok := c.parse(words)
	switch {
	case !ok, c.Operands != nil && len(operands) > *c.Operands, len(operands) < c.Files && !fed,
		c.First != nil && (len(operands) == 0 || !c.First.MatchString(operands[0].text)):
		return false
	}
	return !slices.ContainsFunc(operands, func(w word) bool {
		// A glob may expand to any number of operands. "-" is the standard input, which
		// without a pipe may be that of the server.
		return w.glob && c.Operands != nil || w.text == "-" && !fed
	})
}

// parse returns the operands; ok is false if an option is not listed. Like GNU commands, it
// accepts options after operands; other commands would open them as files.
func (c command) parse(words []word) (operands []word, ok bool) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w.text == "--":
			// Some versions of sort accept -o even after "--".
			rest := words[i+1:]
			isOption := func(w word) bool { return !w.operand() }
			return append(operands, rest...), !slices.ContainsFunc(rest, isOption)
		case w.text == "-" || w.operand():
			operands = append(operands, w)
			continue
		}
		value, wants, ok := c.option(w.text)
		if wants {
			if i++; i == len(words) || words[i].glob {
				return nil, false
			}
			value = words[i].text
		}
		// A version of the command in which the option has no value must not take it for another
		// option.
		if !ok || strings.HasPrefix(value, "-") && strings.Trim(value, "0123456789") != "-" {
			return nil, false
		}
	}
	return operands, true
}

// option parses one word with options. wants means that the next word is the value of the
// last one.
func (c command) option(text string) (value string, wants, ok bool) {
	if text[0] != '-' {
		return "", false, false
	}
	if c.Words || strings.HasPrefix(text, "--") {
		name, value, given := strings.Cut(strings.TrimPrefix(text[1:], "-"), "=")
		for listed := range strings.FieldsSeq(c.Long) {
			if bare := strings.TrimRight(listed, "=?"); bare == name {
				must := strings.HasSuffix(listed, "=")
				return value, must && !given, bare != listed || !given
			}
		}
		return "", false, false
	}
	for i := 1; i < len(text); i++ {
		name := text[i : i+1]
		switch {
		case strings.Contains(c.Flags, name):
		case strings.Contains(c.Apart, name):
			return "", true, i+1 == len(text)
		case strings.Contains(c.Valued, name):
			return text[i+1:], i+1 == len(text), true
		default:
			return "", false, false
		}
	}
	return "", false, true
}

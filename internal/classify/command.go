package classify

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// command is an entry of commands.toml or git.toml: a command that only reads as long as
// it has no options other than these. The two files document the fields.
type command struct {
	Names    []string
	Flags    string
	Valued   string
	Long     string
	Operands *int
	Files    int
	Fed      bool
	Needs    []string
	Pattern  []string
	Lists    []string
	Literal  bool
	Words    bool

	// Only for git commands.
	Shared  []string
	Early   string
	Creates []string
}

// table is the content of commands.toml or git.toml.
type table struct {
	Command []command
	Shared  map[string]string // name → long options
}

//go:embed commands.toml
var commandsTOML string

//go:embed git.toml
var gitTOML string

var (
	commands    = sync.OnceValue(func() map[string]command { return commandsOf(commandsTOML) })
	gitCommands = sync.OnceValue(func() map[string]command { return commandsOf(gitTOML) })
)

// commandsOf decodes an embedded table into a map from names to commands.
func commandsOf(text string) map[string]command {
	var t table
	if _, err := toml.Decode(text, &t); err != nil {
		panic(err) // a test decodes both
	}
	byName := make(map[string]command)
	for _, c := range t.Command {
		for _, list := range c.Shared {
			c.Long += " " + t.Shared[list]
		}
		for _, name := range c.Names {
			byName[name] = c
		}
	}
	return byName
}

// args are the parsed arguments of a command.
type args struct {
	options  []string // without dashes and values
	operands []word
}

func (a args) has(names ...string) bool {
	return slices.ContainsFunc(a.options, func(o string) bool { return slices.Contains(names, o) })
}

// reads reports whether the command, called with these words, only reads. fed means that
// its standard input is another command's output.
func (c command) reads(words []word, fed bool) bool {
	if c.Literal {
		return true
	}
	a, ok := c.parse(words)
	return ok && c.allows(a, fed)
}

// allows reports whether a call with these arguments, whose options are all listed, only
// reads.
func (c command) allows(a args, fed bool) bool {
	files := c.Files
	switch {
	case c.Operands != nil && len(a.operands) > *c.Operands, c.Fed && !fed, len(c.Needs) > 0 && !a.has(c.Needs...):
		return false
	case a.has(c.Lists...):
		files = 0
	case a.has(c.Pattern...):
		files--
	}
	if !fed && len(a.operands) < files {
		return false
	}
	return !slices.ContainsFunc(a.operands, func(w word) bool {
		// A glob may expand to any number of operands. "-" is the standard input,
		// which without a pipe may be that of the server.
		return w.glob && c.Operands != nil || w.text == "-" && !fed
	})
}

// parse separates options from operands; ok is false if an option is not listed. Like GNU
// commands, it accepts options after operands; other commands would open them as files.
func (c command) parse(words []word) (a args, ok bool) {
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w.text == "--":
			a.operands = append(a.operands, words...)
			// Some versions of sort accept -o even after "--".
			return a, !slices.ContainsFunc(words, func(w word) bool { return !w.operand() })
		case w.text == "-" || w.operand():
			a.operands = append(a.operands, w)
			continue
		case w.text[0] == '+':
			return a, false
		}
		option := c.short
		if c.Words || strings.HasPrefix(w.text, "--") {
			option = c.long
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
	return a, true
}

// optionValue reports whether every version of a command takes the word for a value: a
// version whose option has no value must not take the word for another option.
func optionValue(s string) bool {
	return s == "" || s[0] != '-' || len(s) > 1 && onlyOf(s[1:], "0123456789")
}

func (c command) short(text string) (names []string, needsValue, ok bool) {
	for i := 1; i < len(text); i++ {
		name := text[i : i+1]
		names = append(names, name)
		switch {
		case strings.Contains(c.Flags, name):
		case strings.Contains(c.Valued, name):
			return names, i+1 == len(text), optionValue(text[i+1:])
		default:
			return nil, false, false
		}
	}
	return names, false, true
}

func (c command) long(text string) (names []string, needsValue, ok bool) {
	name, value, given := strings.Cut(strings.TrimPrefix(text[1:], "-"), "=")
	for listed := range strings.FieldsSeq(c.Long) {
		bare := strings.TrimRight(listed, "=?")
		if bare != name {
			continue
		}
		takes, must := bare != listed, strings.HasSuffix(listed, "=")
		return []string{name}, must && !given, (takes || !given) && optionValue(value)
	}
	return nil, false, false
}

// sed accepts only forms such as sed -n '10,20p': other sed commands write files (w) or run
// programs (e).
func sed(words []word, fed bool) bool {
	if len(words) < 2 || words[0].text != "-n" || words[1].glob || !sedScript().MatchString(words[1].text) {
		return false
	}
	files := words[2:]
	return (fed || len(files) > 0) && !slices.ContainsFunc(files, func(w word) bool { return !w.operand() })
}

var sedScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+|\$)(,([0-9]+|\$))?p(;([0-9]+|\$)(,([0-9]+|\$))?[pq])*$`)
})

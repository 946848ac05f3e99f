package classify

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// command is a command that only reads as long as it has no other options than these:
// an entry of commands.toml, or of git.toml, which say what each field means.
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

	// Of git's commands.
	Shared  []string
	Early   string
	Creates []string
}

// table is one of the files of commands.
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

// commandsOf reads a table, which came with the program, into name → command.
func commandsOf(text string) map[string]command {
	var t table
	if _, err := toml.Decode(text, &t); err != nil {
		panic(err) // a test reads both
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

// arguments are a command's words, sorted.
type arguments struct {
	options  []string // without dashes and values
	operands []word
}

func (a arguments) has(names ...string) bool {
	return slices.ContainsFunc(a.options, func(o string) bool { return slices.Contains(names, o) })
}

// reads says whether the command reads when it is called with these words; fed, whether
// its standard input is another command's output.
func (c command) reads(words []word, fed bool) bool {
	if c.Literal {
		return true
	}
	a, ok := c.sort(words)
	return ok && c.allows(a, fed)
}

// allows says whether a call with these arguments, whose options are all listed, reads.
func (c command) allows(a arguments, fed bool) bool {
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
		// The number of operands counts where it is limited, and - is the
		// standard input, which may be that of the server.
		return w.glob && c.Operands != nil || w.text == "-" && !fed
	})
}

// sort tells options from operands; ok is false if one is not listed. An option
// may stand behind an operand, as for GNU's commands; for others it is a file.
func (c command) sort(words []word) (a arguments, ok bool) {
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w.text == "--":
			a.operands = append(a.operands, words...)
			// Some versions of sort look for -o behind it as well.
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

// optionValue reports whether a word is a value for all versions of a command:
// one that knows the option without a value must not find an option there.
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

// sed knows sed -n '10,20p' and nothing else: sed's other commands write
// files (w) and run programs (e).
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

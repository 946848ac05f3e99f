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
// reads as long as it has no options other than these. It has more than 15 fields because
// each is a rule that an entry may state.
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
	Ordered  bool
	Files    int
	First    *regexp.Regexp
	Needs    []string
	Pattern  []string
	Lists    []string
	Creates  []string
	Early    bool
}

//go:embed commands.toml
var commandsTOML string

// commands returns the table: name → command.
var commands = sync.OnceValue(func() map[string]command {
	var table struct {
		Command []command
		Shared  map[string]string // name → long options
	}
	if _, err := toml.Decode(commandsTOML, &table); err != nil {
		panic(err) // a test decodes it
	}
	byName := make(map[string]command)
	for _, c := range table.Command {
		for _, list := range c.Shared {
			c.Long += " " + table.Shared[list]
		}
		for _, name := range c.Names {
			byName[name] = c
		}
	}
	return byName
})

// options are the options of a call, without dashes and values.
type options []string

func (o options) has(names ...string) bool {
	return slices.ContainsFunc(o, func(one string) bool { return slices.Contains(names, one) })
}

// reads reports whether the command, called with these words, only reads, and returns its
// options. fed means that its standard input is another command's output.
func (c command) reads(words []word, fed bool) (given options, ok bool) {
	if c.Literal {
		return nil, true
	}
	given, operands, ok := c.parse(words)
	files := c.Files
	switch {
	case !ok, c.Operands != nil && len(operands) > *c.Operands,
		len(c.Needs) > 0 && !given.has(c.Needs...),
		len(c.Creates) > 0 && len(operands) > 0 && !given.has(c.Creates...),
		c.First != nil && (len(operands) == 0 || !c.First.MatchString(operands[0].text)):
		return nil, false
	case given.has(c.Lists...):
		files = 0
	case given.has(c.Pattern...):
		files--
	}
	return given, (fed || len(operands) >= files) && !slices.ContainsFunc(operands, func(w word) bool {
		// A glob may expand to any number of operands. "-" is the standard input, which
		// without a pipe may be that of the server.
		return w.glob && c.Operands != nil || w.text == "-" && !fed
	})
}

// parse separates options from operands; ok is false if an option is not listed. Like GNU
// commands, it accepts options after operands; other commands would open them as files.
// Where that may write, it does not: `uniq a -c` may write to -c, `git config a.b --list`
// sets a.b, and `command rm -v x` removes x.
func (c command) parse(words []word) (given options, operands []word, ok bool) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case c.Ordered && len(operands) > 0 && !w.operand() && w.text != "-" && !given.has(c.Needs...):
			return nil, nil, false
		case w.text == "--":
			// Some versions of sort accept -o even after "--".
			rest := words[i+1:]
			isOption := func(w word) bool { return !w.operand() }
			return given, append(operands, rest...), !slices.ContainsFunc(rest, isOption)
		case w.text == "-" || w.operand():
			operands = append(operands, w)
			continue
		}
		names, value, wants, ok := c.option(w.text)
		if wants {
			if i++; i == len(words) || words[i].glob {
				return nil, nil, false
			}
			value = words[i].text
		}
		// A version of the command in which the option has no value must not take it for another
		// option.
		if !ok || strings.HasPrefix(value, "-") && strings.Trim(value, "0123456789") != "-" {
			return nil, nil, false
		}
		given = append(given, names...)
	}
	return given, operands, true
}

// option parses one word with options. wants means that the next word is the value of the
// last one.
func (c command) option(text string) (names options, value string, wants, ok bool) {
	if text[0] != '-' {
		return nil, "", false, false
	}
	if c.Words || strings.HasPrefix(text, "--") {
		name, value, given := strings.Cut(strings.TrimPrefix(text[1:], "-"), "=")
		for listed := range strings.FieldsSeq(c.Long) {
			if bare := strings.TrimRight(listed, "=?"); bare == name {
				must := strings.HasSuffix(listed, "=")
				return options{name}, value, must && !given, bare != listed || !given
			}
		}
		return nil, "", false, false
	}
	for i := 1; i < len(text); i++ {
		name := text[i : i+1]
		names = append(names, name)
		switch {
		case strings.Contains(c.Flags, name):
		case strings.Contains(c.Apart, name):
			return names, "", true, i+1 == len(text)
		case strings.Contains(c.Valued, name):
			return names, text[i+1:], i+1 == len(text), true
		default:
			return nil, "", false, false
		}
	}
	return names, "", false, true
}

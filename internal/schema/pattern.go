package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPatternBytes = 8 << 10 // of all the patterns of a schema: [\p{L}] is six and a table of 5 KB
	maxInstructions = 20_000  // of the matcher for all of them: x{1000} is seven bytes and a thousand of these
)

// patterns compiles the regular expressions of one schema, of which it refuses all
// once it has refused one.
type patterns struct {
	compiled     map[string]*pattern
	bytes        int // of all of them
	instructions int // likewise
	bad          error
}

// pattern is a compiled regular expression that knows what a match costs.
type pattern struct {
	*regexp.Regexp
	instructions int // about
}

func (p *patterns) compile(s string) (jsonschema.Regexp, error) {
	if re, ok := p.compiled[s]; ok {
		return re, nil
	}
	if p.bad != nil {
		return nil, p.bad
	}
	re, err := p.measured(s)
	if err != nil {
		p.bad = fmt.Errorf("pattern %s: %w", quoted(s), err)
		return nil, p.bad
	}
	p.compiled[s] = re
	return re, nil
}

func (p *patterns) measured(s string) (*pattern, error) {
	if p.bytes += len(s); p.bytes > maxPatternBytes {
		return nil, errors.New("the patterns are too long together")
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := instructions(tree)
	if p.instructions += n; p.instructions > maxInstructions {
		return nil, errors.New("the patterns repeat too much together")
	}
	re, err := regexp.Compile(s)
	return &pattern{Regexp: re, instructions: n}, err
}

// instructions is about how many instructions a regular expression becomes.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxInstructions+1)
}

// effort is what matching a text takes at worst.
func (p *pattern) effort(text string) int { return 2 + p.instructions*len(text)/2 }

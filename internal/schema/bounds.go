package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcpschedd/internal/jsonrpc"
)

const (
	maxSchema       = 64 << 10
	maxArguments    = 256 << 10
	maxWeight       = 10_000 // of a schema with its references expanded
	maxPattern      = 1 << 10
	maxInstructions = 20_000 // of all compiled patterns of a schema: x{1000} has 7 bytes and 1000 instructions
	enumWeight      = 10     // of a value of enum: a number is converted to a rational for each comparison
)

// hugeNumber matches a number with an extreme exponent: the validator uses rationals, in which
// 1e1000000 takes a megabyte. maxNumber bounds its digits, as dividing long numbers takes long.
var hugeNumber = regexp.MustCompile(`[eE][+-]?0*[0-9]{4}`)

const maxNumber = 400 // characters of a number as written; the largest double has 309 digits

// hasHugeNumber reports whether a decoded value contains such a number.
func hasHugeNumber(value any) bool {
	switch value := value.(type) {
	case json.Number:
		return len(value) > maxNumber || hugeNumber.MatchString(string(value))
	case []any:
		return slices.ContainsFunc(value, hasHugeNumber)
	case map[string]any:
		for _, member := range value {
			if hasHugeNumber(member) {
				return true
			}
		}
	}
	return false
}

// decode decodes one JSON value for the validator, with numbers as written.
func decode(raw []byte, limit int) (value any, err error) {
	if len(raw) > limit {
		return nil, fmt.Errorf("%d bytes: at most %d are read", len(raw), limit)
	}
	if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
		return nil, errors.New("invalid JSON")
	}
	if hasHugeNumber(value) {
		return nil, fmt.Errorf("a number with more than %d characters, or an exponent of more than three digits", maxNumber)
	}
	return value, nil
}

// weigher adds up the weight of a document with each reference expanded: one for each value, one for
// each 64 bytes of the path to it, which the compiler stores, and more for the values of an enum.
// Each part of the expanded schema is applied to a value of the arguments at most once, so the
// validator makes at most weight times the number of values such steps. A schema in which each part
// refers to the next one twice has weight 2^n, a recursive one no finite weight.
//
// This holds only if the validator finds the same places for the references. The weigher therefore
// follows them in the decoded document that the validator gets, and deletes "$id" and "$schema",
// which would make a part a document of its own.
type weigher struct {
	document    any
	weight      int
	conditional bool // the document has a keyword of ofTheWhole
}

// ofTheWhole are the keywords that depend on the validity of the whole value.
var ofTheWhole = []string{"then", "else", "unevaluatedProperties", "unevaluatedItems"}

// role is what a value in a schema document is.
type role int

const (
	subschema role = iota
	byName         // an object with members of any names, which are subschemas
	plain          // a value in which nothing is a reference
)

// roleOf returns the role of a keyword's value.
func roleOf(keyword string) role {
	switch keyword {
	case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
		return byName
	case "const", "default", "enum", "examples":
		return plain
	}
	return subschema
}

// weigh adds the weight of a value below a path of so many bytes.
func (w *weigher) weigh(at any, path int, is role) error {
	if w.weight += 1 + path/64; w.weight > maxWeight {
		return errors.New("recursive, or too large with its references expanded")
	}
	switch at := at.(type) {
	case map[string]any:
		for name, member := range at {
			inner := is
			if is == subschema {
				inner = roleOf(name)
			} else if is == byName {
				inner = subschema
			}
			text, isText := member.(string)
			list, _ := member.([]any)
			switch {
			case is != subschema:
			case name == "enum":
				w.weight += enumWeight * len(list)
			case slices.Contains(ofTheWhole, name):
				w.conditional = true
			case !isText:
			case name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef":
				pointer, local := strings.CutPrefix(text, "#")
				pointer, err := url.PathUnescape(pointer)
				if name != "$ref" || !local || err != nil || !jsonrpc.ValidPointer(pointer) {
					return fmt.Errorf("%s %.60q: only a JSON pointer into the document is supported", name, text)
				}
				w.weight += len(text) / 64
				if member = target(w.document, pointer); member == nil {
					return fmt.Errorf("$ref %.60q: not found", text)
				}
			case name == "$id" || name == "$schema":
				delete(at, name)
			}
			if err := w.weigh(member, path+len(name)+1, inner); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range at {
			if err := w.weigh(element, path+4, is); err != nil {
				return err
			}
		}
	}
	return nil
}

// target returns the value that a valid pointer refers to in a decoded document, as the validator
// finds it: nil if there is none.
func target(at any, pointer string) any {
	for token := range jsonrpc.PointerTokens(pointer) {
		switch value := at.(type) {
		case map[string]any:
			at = value[token]
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || index >= len(value) {
				return nil
			}
			at = value[index]
		default:
			return nil
		}
	}
	return at
}

// patterns compiles the regular expressions of one schema.
type patterns struct {
	instructions int
	err          error // clearer than the validator's
}

func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(expression[:min(len(expression), maxPattern)], syntax.Perl)
	if err == nil {
		var program *syntax.Prog
		if program, err = syntax.Compile(tree.Simplify()); err == nil {
			p.instructions += len(program.Inst)
		}
	}
	if err == nil && (p.instructions > maxInstructions || len(expression) > maxPattern) {
		err = errors.New("too large")
	}
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("pattern %.60q: %w", expression, err)
	}
	if p.err != nil {
		return nil, p.err
	}
	return regexp.Compile(expression)
}

package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSchema       = 64 << 10
	maxArguments    = 256 << 10
	maxDepth        = 100     // of objects and arrays
	maxWeight       = 3000    // values of a schema, its references written out
	maxPlaces       = 500_000 // bytes of the paths to all of them: the compiler keeps each
	maxDigits       = 400     // of a number, also of what its exponent stands for: a double has 309
	maxPattern      = 1 << 10
	maxInstructions = 20_000 // of the matchers for all patterns of a schema: x{1000} is seven bytes and a thousand of these
)

// decode reads one JSON value for the validator, numbers as written, and counts the
// values in it.
func decode(raw []byte, most int) (value any, values int, err error) {
	if len(raw) > most {
		return nil, 0, fmt.Errorf("%d bytes: at most %d are read", len(raw), most)
	}
	if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
		return nil, 0, errors.New("no valid JSON")
	}
	values, err = measure(value, maxDepth)
	return value, values, err
}

// measure counts the values in a value, and refuses what is nested too deep or holds a
// number out of bounds: the validator reckons with fractions of whole numbers, for
// which 1e1000000 is a megabyte.
func measure(value any, depth int) (values int, err error) {
	if depth == 0 {
		return 0, errors.New("nested too deep")
	}
	values = 1
	add := func(of any) bool {
		var n int
		n, err = measure(of, depth-1)
		values += n
		return err == nil
	}
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if !add(member) {
				break
			}
		}
	case []any:
		for _, element := range v {
			if !add(element) {
				break
			}
		}
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		if e, bad := strconv.Atoi(exponent); len(digits) > maxDigits || exponent != "" && (bad != nil || max(e, -e) > maxDigits) {
			return 1, errors.New("a number out of all proportion")
		}
	}
	return values, err
}

// What values of a schema count that cost the validator more than others.
const (
	numberWeight = 10  // it is made a fraction for each value that it is compared with
	uniqueWeight = 100 // elements of an array are compared with each other
)

// expansion counts the values of a schema as if each reference were written out, and
// refuses one that refers to itself. Each of these asks something of a value in the
// arguments once at most, so their number times that of the arguments bounds the
// validator's work; a schema whose parts refer to the next one twice each has 2^n.
type expansion struct {
	doc    map[string]any
	open   map[string]bool // references that are being written out
	weight int
	places int // bytes of the paths to the values
}

// count counts a value to which a path of some bytes leads.
func (e *expansion) count(value any, path int) error {
	e.weight++
	e.places += path
	if _, ok := value.(json.Number); ok {
		e.weight += numberWeight
	}
	if e.weight > maxWeight || e.places > maxPlaces {
		return errors.New("too large with its references written out")
	}
	switch v := value.(type) {
	case map[string]any:
		if v["format"] == "regex" {
			delete(v, "format") // it cannot be registered as one that says nothing: see formats
		}
		for _, name := range slices.Sorted(maps.Keys(v)) { // sorted: of several errors always the same
			if err := e.member(name, v[name], path); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range v {
			if err := e.count(element, path+4); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *expansion) member(name string, value any, path int) error {
	if name == "uniqueItems" {
		e.weight += uniqueWeight
	}
	if text, ok := value.(string); ok {
		switch name {
		case "$ref":
			return e.follow(text)
		case "$dynamicRef", "$recursiveRef", "$id", "$schema":
			if name != "$schema" || path > 0 {
				return fmt.Errorf("%s: references that depend on more than their place are not read", name)
			}
		case "id":
			if dialect, _ := e.doc["$schema"].(string); strings.Contains(dialect, "draft-04") {
				return errors.New("id: references that depend on more than their place are not read")
			}
		}
	}
	return e.count(value, path+len(name)+1)
}

// follow counts what a reference leads to.
func (e *expansion) follow(ref string) error {
	fragment, within := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(fragment)
	switch {
	case !within:
		return fmt.Errorf("$ref %s: a reference may not leave the document", quoted(ref))
	case err != nil || pointer != "" && pointer[0] != '/':
		return fmt.Errorf("$ref %s: is no JSON pointer", quoted(ref))
	case e.open[pointer]:
		return fmt.Errorf("$ref %s: refers to itself", quoted(ref))
	}
	var at any = e.doc
	for _, name := range strings.Split(pointer, "/")[1:] {
		name, found := strings.NewReplacer("~1", "/", "~0", "~").Replace(name), false
		switch v := at.(type) {
		case map[string]any:
			at, found = v[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(v) {
				at, found = v[i], true
			}
		}
		if !found {
			return fmt.Errorf("$ref %s: not found", quoted(ref))
		}
	}
	e.open[pointer] = true
	defer delete(e.open, pointer)
	return e.count(at, 0)
}

// patterns compiles the regular expressions of one schema, of which it refuses all
// once it has refused one.
type patterns struct {
	instructions int // of all of them
	bad          error
}

func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	if p.bad != nil {
		return nil, p.bad
	}
	re, err := p.measured(expression)
	if err != nil {
		p.bad = fmt.Errorf("pattern %s: %w", quoted(expression), err)
		return nil, p.bad
	}
	return re, nil
}

func (p *patterns) measured(expression string) (*regexp.Regexp, error) {
	if len(expression) > maxPattern {
		return nil, errors.New("too long")
	}
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if p.instructions += len(program.Inst); p.instructions > maxInstructions {
		return nil, errors.New("the patterns repeat too much together")
	}
	return regexp.Compile(expression)
}

package schema

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSchema       = 64 << 10
	maxArguments    = 256 << 10
	maxWeight       = 3000    // parts of a schema, its references written out
	maxPaths        = 500_000 // bytes of the paths to all values of a schema: the compiler keeps each
	maxPattern      = 1 << 10
	maxInstructions = 20_000 // of the matchers for all patterns of a schema: x{1000} is seven bytes and a thousand of these
)

// huge is a number out of all proportion: the validator reckons with fractions of whole
// numbers, for which 1e1000000 is a megabyte.
var huge = regexp.MustCompile(`[0-9][eE][+-]?0*[0-9]{4}`)

// decode reads one JSON value for the validator, numbers as written, and counts what it
// has to look at: its values, as many as there are commas and brackets at most, and each
// 64 bytes.
func decode(raw []byte, most int) (value any, size int, err error) {
	if len(raw) > most {
		return nil, 0, fmt.Errorf("%d bytes: at most %d are read", len(raw), most)
	}
	if huge.Match(raw) {
		return nil, 0, errors.New("a number out of all proportion")
	}
	if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
		return nil, 0, errors.New("no valid JSON")
	}
	values := 1 + bytes.Count(raw, []byte(",")) + bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("["))
	return value, values + len(raw)/64, nil
}

// paths is how long the paths to all values of a schema are. It also takes out the format
// "regex", which would have a value compiled.
func paths(value any, path int) int {
	sum := path
	switch v := value.(type) {
	case map[string]any:
		if v["format"] == "regex" {
			delete(v, "format")
		}
		for name, member := range v {
			sum += paths(member, path+len(name)+1)
		}
	case []any:
		for _, element := range v {
			sum += paths(element, path+4)
		}
	}
	return sum
}

// What a part of a schema counts, and what those that cost the validator more count beside.
const (
	partWeight   = 2
	enumWeight   = 10  // a value of an enum: a number is made a fraction for each value that it is compared with
	uniqueWeight = 100 // elements of an array are compared with each other
)

// scale counts the parts of a schema as if each reference were written out, and refuses one
// that refers to itself. Each part asks something of a value in the arguments once at most,
// so their number times that of the values bounds the validator's work; a schema whose
// parts refer to the next one twice each has 2^n.
type scale struct {
	weight int
	open   map[*jsonschema.Schema]bool // those that are being weighed
}

var errLarge = errors.New("too large with its references written out")

func (s *scale) weigh(at *jsonschema.Schema) error {
	if s.open[at] {
		return errors.New("refers to itself")
	}
	s.weight += partWeight
	if at.Enum != nil {
		s.weight += enumWeight * len(at.Enum.Values)
	}
	if at.UniqueItems {
		s.weight += uniqueWeight
	}
	switch {
	case s.weight > maxWeight:
		return errLarge
	case at.DynamicRef != nil:
		return errors.New("references that depend on more than their place are not read")
	}
	s.open[at] = true
	defer delete(s.open, at)
	parts := reflect.ValueOf(at).Elem()
	for i := range parts.NumField() {
		if parts.Type().Field(i).IsExported() {
			if err := s.part(parts.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// part weighs the schemas that a field of a schema holds.
func (s *scale) part(v reflect.Value) (err error) {
	switch v.Kind() {
	case reflect.Interface:
		return s.part(v.Elem())
	case reflect.Pointer:
		if at, ok := v.Interface().(*jsonschema.Schema); ok && at != nil {
			return s.weigh(at)
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && err == nil; i++ {
			err = s.part(v.Index(i))
		}
	case reflect.Map:
		for at := v.MapRange(); err == nil && at.Next(); {
			err = s.part(at.Value())
		}
	}
	return err
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
		p.bad = fmt.Errorf("pattern %.60q: %w", expression, err)
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

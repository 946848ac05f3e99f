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
	maxWeight       = 3000    // weight of a schema with its references expanded
	maxPaths        = 500_000 // bytes of the paths to all values of a schema: the compiler stores each path
	maxPattern      = 1 << 10
	maxInstructions = 20_000 // of all compiled patterns of a schema: x{1000} has 7 bytes and 1000 instructions
)

// hugeNumber matches a number with an extreme exponent: the validator uses rationals, in which
// 1e1000000 takes a megabyte.
var hugeNumber = regexp.MustCompile(`[0-9][eE][+-]?0*[0-9]{4}`)

// decode decodes one JSON value for the validator, with numbers as written. size is an upper
// bound of its values, from its commas and brackets, plus one for each 64 bytes.
func decode(raw []byte, limit int) (value any, size int, err error) {
	if len(raw) > limit {
		return nil, 0, fmt.Errorf("%d bytes: at most %d are read", len(raw), limit)
	}
	if hugeNumber.Match(raw) {
		return nil, 0, errors.New("a number whose exponent has more than three digits")
	}
	if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(raw)); err != nil {
		return nil, 0, errors.New("invalid JSON")
	}
	values := 1 + bytes.Count(raw, []byte(",")) + bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("["))
	return value, values + len(raw)/64, nil
}

// pathBytes returns the total length of the paths to all values of a schema. It also removes the
// format "regex", which would compile values as patterns.
func pathBytes(value any, path int) int {
	sum := path
	switch v := value.(type) {
	case map[string]any:
		if v["format"] == "regex" {
			delete(v, "format")
		}
		for name, member := range v {
			sum += pathBytes(member, path+len(name)+1)
		}
	case []any:
		for _, element := range v {
			sum += pathBytes(element, path+4)
		}
	}
	return sum
}

// Weights of a part of a schema, and of keywords that are more expensive to check.
const (
	partWeight   = 2
	enumWeight   = 10  // per enum value: a number is converted to a rational for each comparison
	uniqueWeight = 100 // array elements are compared pairwise
)

// weigher adds up the weight of a schema with each reference expanded, and rejects recursive
// schemas. Each part is applied to a value in the arguments at most once, so weight times the
// number of values bounds the validator's work. A schema whose parts each refer to the next one
// twice has weight 2^n.
type weigher struct {
	weight int
	active map[*jsonschema.Schema]bool // parts on the current path
}

var errTooLarge = errors.New("too large with its references expanded")

func (s *weigher) weigh(at *jsonschema.Schema) error {
	if s.active[at] {
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
		return errTooLarge
	case at.DynamicRef != nil:
		return errors.New("$dynamicRef is not supported")
	}
	s.active[at] = true
	defer delete(s.active, at)
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

// part weighs the schemas in a field of a schema.
func (s *weigher) part(v reflect.Value) (err error) {
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

// patterns compiles the regular expressions of one schema. After an error it rejects all further
// ones.
type patterns struct {
	instructions int // of all patterns so far
	err          error
}

func (p *patterns) compile(expression string) (jsonschema.Regexp, error) {
	if p.err != nil {
		return nil, p.err
	}
	re, err := p.compileBounded(expression)
	if err != nil {
		p.err = fmt.Errorf("pattern %.60q: %w", expression, err)
		return nil, p.err
	}
	return re, nil
}

func (p *patterns) compileBounded(expression string) (*regexp.Regexp, error) {
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
		return nil, errors.New("the patterns are too large in total")
	}
	return regexp.Compile(expression)
}

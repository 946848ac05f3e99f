// Package schema checks the arguments of a call against the input schema of its
// tool, before a call that nobody asked for is sent.
//
// The one idea: whoever wrote the schema is not trusted, and the validator is not
// ours, so both are only given what is known beforehand to end soon. A schema is
// measured before it is compiled, arguments are measured against it before they
// are checked, and nothing is ever fetched. What cannot be measured or understood
// is an error: a guess that is not made costs nothing.
//
//	s, err := schema.Compile(tool["inputSchema"]) // err: make no guesses at this tool
//	err = s.Check([]byte(`{"owner": "o", "issue_number": "7"}`))
//	// issue_number: want integer, have string
//
// It leaves out "format", which JSON Schema calls an annotation and no two
// validators read alike, $dynamicRef and $recursiveRef, and defaults: nothing is
// filled in.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled input schema. The zero Schema, and a nil one, accepts any
// object and nothing else. It may be used by several goroutines at once.
type Schema struct {
	root  *jsonschema.Schema          // nil: any object
	loads map[*jsonschema.Schema]load // of those that hold something
}

// base is what the document is called to resolve its references. Nothing is
// there: the loader refuses everything.
const base = "schema://tool/input"

// Compile reads an input schema as a tools/list gives it; "" and null, which say
// nothing, accept any object. A schema that names no dialect or an unknown one is
// read as JSON Schema 2020-12.
//
// It is an error if the schema is larger than 256 KiB or made to be expensive, if
// a reference leaves the document, and if a pattern is none of Go's regexp: what a
// pattern with a lookahead would forbid is not known, and without it the check
// would let through what the tool refuses.
func Compile(raw []byte) (*Schema, error) {
	raw = bytes.Trim(raw, " \t\r\n")
	if len(raw) == 0 || string(raw) == "null" {
		return &Schema{}, nil
	}
	value, _, err := decode(raw, schemaLimits)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("schema: want an object, have %s", nameOf(value))
	}
	if dialect, ok := doc["$schema"].(string); !ok || !known(dialect) {
		delete(doc, "$schema")
	}
	root, err := compile(doc)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s := &Schema{root: root, loads: make(map[*jsonschema.Schema]load)}
	if err := s.inspect(); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

// Check reports the first thing that is wrong with arguments, a JSON object, in
// one line that names the member; nil if nothing is. Values are not repeated in
// it. Numbers count as written. Arguments that would take more than [MaxEffort] to
// check are an error too. That a value is of the wrong type is a [*WrongType].
func (s *Schema) Check(arguments []byte) error {
	left := 2 * MaxEffort // what reading them takes comes to less
	return s.CheckWithin(arguments, &left)
}

// ErrSpent says that arguments were not checked, as there is not enough effort left.
var ErrSpent = errors.New("arguments: not checked: no effort left for it")

// CheckWithin does what Check does with the effort that is left, and takes off what
// it needs. Where that is not enough it is [ErrSpent], and only what it took to
// find out is taken off.
func (s *Schema) CheckWithin(arguments []byte, left *int) error {
	value, found, err := s.find(arguments, left)
	if err != nil || found == nil {
		return err
	}
	return explain(found, value, "arguments")
}

// find reads arguments and is what is wrong with them; nil if nothing is. It is an
// error if they are no object, or cannot be checked with the effort that is left.
func (s *Schema) find(arguments []byte, left *int) (value any, found *jsonschema.ValidationError, err error) {
	if *left <= 0 {
		return nil, nil, ErrSpent
	}
	value, took, err := decode(arguments, argumentLimits)
	*left -= took
	if err != nil {
		return nil, nil, fmt.Errorf("arguments: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, nil, fmt.Errorf("arguments: want object, have %s", nameOf(value))
	}
	if s == nil || s.root == nil {
		return value, nil, nil
	}
	if err := s.afford(value, left); err != nil {
		return nil, nil, err
	}
	found, err = s.validate(value)
	return value, found, err
}

// afford takes what checking a value needs off what is left.
func (s *Schema) afford(value any, left *int) error {
	most := min(MaxEffort, max(*left, 0))
	takes := s.cost(value, most)
	switch {
	case takes <= most:
		*left -= takes
		return nil
	case most < MaxEffort:
		*left -= most / perMeasured
		return ErrSpent
	}
	*left -= most / perMeasured
	return errors.New("arguments: too much work to check")
}

func compile(doc map[string]any) (root *jsonschema.Schema, err error) {
	defer unharmed(&err)
	p := &patterns{compiled: make(map[string]*pattern)}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(p.compile)
	if err := c.AddResource(base, doc); err != nil {
		return nil, err
	}
	root, err = c.Compile(base)
	switch {
	case p.bad != nil:
		return nil, p.bad // in clearer words than what the validator made of it
	case err != nil:
		return nil, oneLine(err, doc)
	}
	return root, nil
}

// nowhere finds no document.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("a reference may not leave the document")
}

// known says whether the validator knows the dialect.
func known(dialect string) bool {
	_, name, _ := strings.Cut(strings.TrimSuffix(dialect, "#"), "://")
	switch name {
	case "json-schema.org/schema", "json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema",
		"json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-04/schema":
		return true
	}
	return false
}

// unharmed makes an error of a panic in the validator, which is not ours and
// reads what a stranger wrote.
func unharmed(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the validator failed: %v", r)
	}
}

// Package schema checks the arguments of a call against the input schema of its
// tool, before a prefetch or a plan's step is sent.
//
// The validator is github.com/santhosh-tekuri/jsonschema. It is given nothing to fetch
// references with, and the work that a server's schema can cause is bounded before it
// runs: a document over 64 KiB, one that refers to itself or becomes large when its
// references are written out, and one whose patterns are none of Go's regexp (which
// matches in linear time) is an error of [Compile]. Its tool is then neither
// prefetched nor checked in plans. Of 486 input schemas of 22 real servers none is
// refused; the largest has 6 KB and counts 401 with references written out.
//
//	s, err := schema.Compile(tool["inputSchema"]) // err: do not prefetch this tool
//	err = s.CheckWithin([]byte(`{"owner": "o", "issue_number": "7"}`), &effort)
//	// issue_number: want integer, have string
//
// It leaves out "format", which JSON Schema calls an annotation and no two
// validators read alike, $dynamicRef, and defaults: nothing is filled in.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled input schema. The zero Schema, and a nil one, accepts any
// object and nothing else. It may be used by several goroutines at once.
type Schema struct {
	root   *jsonschema.Schema // nil: any object
	raw    []byte
	weight int // see scale
}

// base is what the document is called to resolve its references. Nothing is
// there: the loader refuses everything.
const base = "schema://tool/input"

// Compile reads an input schema as a tools/list gives it; "" and null, which say
// nothing, accept any object. A schema that names no dialect or an unknown one is
// read as JSON Schema 2020-12. The bytes are kept and not to be changed.
func Compile(raw []byte) (*Schema, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return &Schema{}, nil
	}
	s := &Schema{raw: raw}
	if err := s.compile(); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

func (s *Schema) compile() (err error) {
	defer unharmed(&err)
	value, size, err := decode(s.raw, maxSchema)
	if err != nil {
		return err
	}
	if size > 2*maxWeight { // to compile takes long already
		return errLarge
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("want an object, have %s", nameOf(value))
	}
	if dialect, ok := doc["$schema"].(string); !ok || !known(dialect) {
		delete(doc, "$schema")
	}
	if paths(doc, 0) > maxPaths {
		return errors.New("too many parts of long names")
	}
	delete(doc, "$id") // references are resolved within the document
	delete(doc, "id")
	p := &patterns{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(p.compile)
	for _, name := range formats {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	if err := c.AddResource(base, doc); err != nil {
		return err
	}
	s.root, err = c.Compile(base)
	if p.bad != nil {
		return p.bad // in clearer words than what the validator made of it
	}
	if err != nil {
		return errors.New(short(err.Error()))
	}
	parts := &scale{open: make(map[*jsonschema.Schema]bool)}
	if err := parts.weigh(s.root); err != nil {
		s.root = nil
		return err
	}
	s.weight = parts.weight + p.instructions
	return nil
}

// nowhere finds no document.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("a reference may not leave the document")
}

// formats are those that the validator would hold values to in drafts before 2019-09.
var formats = []string{
	"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email",
	"date", "time", "date-time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
}

// dialects are those that the validator knows.
var dialects = []string{"schema", "draft/2020-12/schema", "draft/2019-09/schema", "draft-07/schema", "draft-06/schema", "draft-04/schema"}

func known(dialect string) bool {
	_, name, _ := strings.Cut(strings.TrimSuffix(dialect, "#"), "://json-schema.org/")
	return slices.Contains(dialects, name)
}

// unharmed makes an error of a panic in the validator.
func unharmed(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the validator failed: %v", r)
	}
}

// MaxEffort is the work that one [Schema.CheckWithin] may take: the values in the schema, its
// references written out, times the values in the arguments and each 64 bytes of them.
// It takes about 20 ms at most, and one of a hundred of that where the arguments fit.
const MaxEffort = 20_000

// maxPlanEffort is the same for arguments that a client wrote, which may hold files.
const maxPlanEffort = 50 * MaxEffort

// ErrSpent says that arguments were not checked, as there is not enough effort left.
var ErrSpent = errors.New("arguments: not checked: no effort left for it")

// CheckWithin reports the first thing that is wrong with arguments, a JSON object, in one
// line that names the member; nil if nothing is. Values are not repeated in it, and numbers
// count as written. It takes what it needs off the effort that is left; where that is not
// enough the error is [ErrSpent], and also no [*Fault] where it would be over [MaxEffort].
func (s *Schema) CheckWithin(arguments []byte, left *int) error {
	value, effort, err := s.read(arguments)
	switch {
	case err != nil:
		return err
	case effort > MaxEffort:
		return errors.New("arguments: too much work to check")
	case effort > *left:
		return ErrSpent
	}
	*left -= effort
	if all := s.faults(value, nil); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// Faults is all that is wrong with arguments, where [Schema.CheckWithin] reports the first
// thing: at most 20 of them, in the order of their places. In arguments that it cannot
// read within its bounds it finds nothing wrong.
//
// Places that are open, which are paths of names and indexes, hold anything yet: what may
// depend on them is not found wrong.
//
//	s.Faults([]byte(`{"owner": null, "issue_number": "7"}`), [][]string{{"owner"}})
//	// issue_number: want integer, have string
func (s *Schema) Faults(arguments []byte, open [][]string) []Fault {
	if s == nil || s.root == nil {
		return nil
	}
	value, effort, err := s.read(arguments)
	if err != nil || effort > maxPlanEffort {
		return nil
	}
	return s.faults(value, open)
}

// read decodes arguments, and says what checking them takes.
func (s *Schema) read(arguments []byte) (value any, effort int, err error) {
	value, size, err := decode(arguments, maxArguments)
	if err != nil {
		return nil, 0, fmt.Errorf("arguments: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, 0, fmt.Errorf("arguments: want object, have %s", nameOf(value))
	}
	if s != nil {
		effort = s.weight * size
	}
	return value, effort, nil
}

// faults are what the validator finds wrong with a value.
func (s *Schema) faults(value any, open [][]string) (all []Fault) {
	if s == nil || s.root == nil {
		return nil
	}
	var err error
	wrong := func() error {
		defer unharmed(&err)
		return s.root.Validate(value)
	}()
	found, ok := errors.AsType[*jsonschema.ValidationError](wrong)
	if !ok {
		return nil // also where the validator failed
	}
	return s.collect(found, open)
}

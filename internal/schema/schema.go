// Package schema validates the arguments of a call against the input schema of its tool before a
// prefetch or a step of a plan is sent.
//
// The validator is github.com/santhosh-tekuri/jsonschema. The work that a server's schema can cause
// is bounded: [Compile] rejects a document over 64 KiB, a recursive one, one that becomes too large
// when its references are expanded, one with a reference other than a JSON pointer into it, one with
// a pattern that is too large or that Go's linear-time regexp does not support, and one with a
// number that is very long or has an extreme exponent; a check that would take too much effort is not
// made. A tool with a rejected schema is neither prefetched nor checked in plans.
//
//	s, err := schema.Compile(tool["inputSchema"]) // err: do not prefetch this tool
//	err = s.Check([]byte(`{"owner": "o", "issue_number": "7"}`))
//	// issue_number: want integer, have string
//
// The package ignores "format", which JSON Schema calls an annotation and validators interpret
// differently. It does not fill in defaults.
package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled input schema. A nil one accepts any object of up to 256 KiB without extreme
// numbers, and nothing else. A Schema is safe for concurrent use.
type Schema struct {
	root        *jsonschema.Schema
	raw         []byte
	weight      int  // see weigher
	conditional bool // see weigher
}

// base is the URL of the document, against which its references are resolved. The loader rejects
// every URL.
const base = "schema://tool/input"

// Compile compiles an input schema from tools/list, as JSON Schema 2020-12 whatever dialect it
// names: of 1,013 schemas of real tools, none depends on another one. Empty input and null accept
// any object. The Schema keeps raw, which must not be modified.
func Compile(raw []byte) (*Schema, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	s := &Schema{raw: raw}
	if err := s.compile(); err != nil {
		return nil, fmt.Errorf("schema: %s", oneLine(err.Error()))
	}
	return s, nil
}

func (s *Schema) compile() (err error) {
	defer recoverInto(&err)
	value, err := decode(s.raw, maxSchema)
	if err != nil {
		return err
	}
	document, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("want an object, have %s", typeName(value))
	}
	w := &weigher{document: document}
	if err := w.weigh(document, 0, subschema); err != nil {
		return err
	}
	p := &patterns{}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(p.compile)
	if err := c.AddResource(base, document); err != nil {
		return err
	}
	s.root, err = c.Compile(base)
	s.weight, s.conditional = w.weight+p.instructions, w.conditional
	return cmp.Or(p.err, err)
}

// noLoader loads no documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("a reference may not leave the document")
}

// recoverInto converts a panic of the validator into an error.
func recoverInto(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the validator failed: %v", r)
	}
}

// maxEffort limits the work of one [Schema.Check]: the weight of the schema with its references
// expanded, times the size of the arguments (one for each value and each 64 bytes). The maximum
// takes about 5 ms, or about 1 ms if the arguments are valid. For half of the input schemas of 22
// real servers a check takes at most about 100, for the most expensive ones some thousands.
const maxEffort = 10_000

// maxPlanEffort is the limit for arguments of a plan, which may contain whole files.
const maxPlanEffort = 1_000_000

// Check returns the first violation in arguments, a JSON object, as one line that names the member,
// or nil if there is none. The line repeats no values. Numbers are compared exactly, without
// rounding. The error of a check that would take too much effort is not a [*Fault].
func (s *Schema) Check(arguments []byte) error {
	value, effort, err := s.read(arguments)
	if err != nil {
		return err
	}
	if effort > maxEffort {
		return errors.New("arguments: too expensive to check")
	}
	if all := s.faults(value, nil); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// Faults returns at most 20 violations in arguments, sorted by path. It returns nil if the
// arguments cannot be read or checking them takes too much effort.
//
// Open places, given as paths of names and indexes, have a value that is not known yet.
// Violations that may depend on them are omitted, which are all if the effect of one of the schema's keywords
// depends on the whole value, such as that of "then".
//
//	s.Faults([]byte(`{"owner": null, "issue_number": "7"}`), [][]string{{"owner"}})
//	// issue_number: want integer, have string
func (s *Schema) Faults(arguments []byte, open [][]string) []Fault {
	if s == nil || len(open) > 0 && s.conditional {
		return nil
	}
	value, effort, err := s.read(arguments)
	if err != nil || effort > maxPlanEffort {
		return nil
	}
	return s.faults(value, open)
}

// read decodes arguments and returns the effort of checking them.
func (s *Schema) read(arguments []byte) (value any, effort int, err error) {
	value, err = decode(arguments, maxArguments)
	if err != nil {
		return nil, 0, fmt.Errorf("arguments: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, 0, fmt.Errorf("arguments: want object, have %s", typeName(value))
	}
	if s != nil {
		effort = s.weight * (1 + bytes.Count(arguments, []byte(",")) + bytes.Count(arguments, []byte("{")) + bytes.Count(arguments, []byte("[")) + len(arguments)/64)
	}
	return value, effort, nil
}

// faults returns the violations in a decoded value.
func (s *Schema) faults(value any, open [][]string) (all []Fault) {
	if s == nil {
		return nil
	}
	var err error
	wrong := func() error {
		defer recoverInto(&err)
		return s.root.Validate(value)
	}()
	found, ok := errors.AsType[*jsonschema.ValidationError](wrong)
	if !ok {
		return nil // also if the validator panicked
	}
	switch all = s.collect(found, open); {
	case len(all) > 0:
		return all
	case open == nil:
		return []Fault{{Message: "not valid"}}
	}
	return nil
}

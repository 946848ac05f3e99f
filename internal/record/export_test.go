package record

import (
	"encoding/json"
	"os"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// The bounds that tests go beyond, and the times that they wait for.
const (
	MaxLine    = maxLine
	MaxQueued  = maxQueued
	MaxWaiting = maxWaiting
	RetryAfter = retryAfter
	WriteEvery = writeEvery
)

// CreateWith replaces how a log's parts are made.
func (o *Options) CreateWith(create func(path string) (*os.File, error)) { o.create = create }

// Create is how they are made.
func Create(path string) (*os.File, error) { return create(path) }

// WaitNoLonger sets how long Flush and Close wait for the disk.
func (l *Log) WaitNoLonger(d time.Duration) { l.patience = d }

// Process is the name that the log has given its process.
func (l *Log) Process() string { return l.process }

// Schema is the JSON Schema (2020-12) of [Stats].
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[Stats]())
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "mcpschedd stats"
	text, _ := json.MarshalIndent(s, "", "  ") // it is made of strings
	return text
}

// schemaOf describes a struct by its tags. No figure is below 0.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	whole, any := &jsonschema.Schema{Type: "integer", Minimum: new(float64)}, &jsonschema.Schema{Type: "number", Minimum: new(float64)}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[int](): whole, reflect.TypeFor[int64](): whole, reflect.TypeFor[float64](): any,
	}})
	if err != nil {
		panic(err) // of a field that no JSON has: every test sees it
	}
	return s
}

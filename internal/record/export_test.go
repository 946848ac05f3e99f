package record

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds and delays of the package.
const (
	MaxLine            = maxLine
	MaxQueued          = maxQueued
	MaxQueuedArguments = maxQueuedArguments
	WriteEvery         = writeEvery
)

// Edges are those of the buckets of a Histogram.
var Edges = edges

// CreateWith replaces the function that creates a log's files.
func (o *Options) CreateWith(create func(path string) (*os.File, error)) { o.create = create }

// Create creates a log's file.
func Create(path string) (*os.File, error) { return create(path) }

// SetTimeout sets how long Flush and Close wait for the disk.
func (l *Log) SetTimeout(d time.Duration) { l.timeout = d }

// Clamp limits an event's numbers and names, as reading does.
func Clamp(e *Event) { e.clamp() }

// Follow returns a function that passes on the lines that were written to the logs of a folder since
// its last call, as a Follower does.
func Follow(dir string, since time.Time, onEvent func(*Event), onProblem func(Problem)) (poll func() error) {
	r := newReader(since, onEvent, onProblem)
	return func() error {
		files, err := Files(dir)
		r.read(context.Background(), files)
		return err
	}
}

// ReadStatuses returns the statuses of the running processes.
var ReadStatuses = readStatuses

// Process returns the name of the log's process.
func (l *Log) Process() string { return l.o.Begin.Process }

// Schema returns the JSON Schema (2020-12) of [Stats].
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[Stats]())
	s.Schema, s.Title = "https://json-schema.org/draft/2020-12/schema", "mcpschedd stats"
	text, _ := json.MarshalIndent(s, "", "  ") // strings always encode
	return text
}

// schemaOf returns the schema of a struct. All numbers have a minimum of 0.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	whole, any := &jsonschema.Schema{Type: "integer", Minimum: new(float64)}, &jsonschema.Schema{Type: "number", Minimum: new(float64)}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[int](): whole, reflect.TypeFor[int64](): whole, reflect.TypeFor[float64](): any,
	}})
	if err != nil {
		panic(err) // a field has a type that JSON cannot represent
	}
	return s
}

package config

import (
	"context"
	"reflect"
	"slices"

	"mcpschedd/internal/valuemodel"

	"github.com/fsnotify/fsnotify"
)

// Schema returns every key of the schema, sorted, with * for the names of named blocks.
func Schema() []string {
	var keys []string
	var walk func(key string, t reflect.Type)
	walk = func(key string, t reflect.Type) {
		switch t.Kind() {
		case reflect.Slice, reflect.Map:
			if e := t.Elem(); e.Kind() == reflect.Struct && e != reflect.TypeFor[valuemodel.Binding]() {
				walk(key+".*", e)
				return
			}
		case reflect.Struct:
			for name, f := range fields(t) {
				walk(join(key, name), f.Type)
			}
			return
		}
		keys = append(keys, key)
	}
	walk("", reflect.TypeFor[Config]())
	slices.Sort(keys)
	return keys
}

// Follow is Watch with the test's own events and watches.
func Follow(ctx context.Context, c *Config, events <-chan fsnotify.Event, errs <-chan error, rewatch func() error, changed func(*Config, error)) error {
	r := &reloader{path: c.Path, last: c.Digest, files: func() []string { return nil }, changed: changed, rewatch: rewatch}
	return r.run(ctx, events, errs, nil)
}

// Expand exports expand for tests.
var Expand = expand

// ParseSize exports parseSize for tests.
var ParseSize = parseSize

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"mcpschedd/internal/bubble"
)

// A value stays text if the tool's schema allows a string, in any of the usual forms.
func TestArguments(t *testing.T) {
	var tool listedTool
	err := json.Unmarshal([]byte(`{"inputSchema":{"properties":{
		"text":{"type":"string"}, "list":{"type":["string","null"]}, "any":{"anyOf":[{"type":"string"},{"type":"null"}]},
		"number":{"type":"integer"}, "perhaps":{"anyOf":[{"type":"integer"},{"type":"null"}]}, "untyped":{}
	}}}`), &tool)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tool.arguments([]string{"text=1", "list=1", "any=1", "number=1", "perhaps=1", "untyped=1", "unknown=1"})
	want := `{"any":"1","list":"1","number":1,"perhaps":1,"text":"1","unknown":"1","untyped":1}`
	if text, _ := json.Marshal(got); err != nil || string(text) != want {
		t.Errorf("got %s and %v, want %s", text, err, want)
	}
}

// A call that the daemon does not serve fails with the daemon's reason.
func TestCallNotServed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		refused := errors.New("no server is configured for /elsewhere")
		_, err := callOnce(t.Context(), func(context.Context, io.Reader, io.Writer) error { return refused }, "x", nil)
		if !errors.Is(err, refused) {
			t.Errorf("got %v, want %v", err, refused)
		}
	})
}

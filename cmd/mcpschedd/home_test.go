package main

import (
	"encoding/json"
	"os"
	"testing"

	"mcpschedd/internal/record"
)

// homely makes the folders of this user folders of the test.
func homely(t *testing.T) (home string) {
	home = t.TempDir()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, home)
	}
	t.Setenv("MCPSCHEDD_CONFIG", "")
	return home
}

// writeFile writes a file for this user alone.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// lookAt returns what stats and the dashboard show.
func lookAt(t *testing.T, view func() (record.View, error)) record.View {
	t.Helper()
	v, err := view()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ownView returns a function that reads the files of this user.
func ownView(t *testing.T) func() (record.View, error) {
	t.Helper()
	view, err := viewOfToday("", false)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// appendLine appends an event as it is written.
func appendLine(to []byte, e *record.Event) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return append(append(to, text...), '\n')
}

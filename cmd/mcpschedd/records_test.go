package main

import (
	"os"
	"strings"
	"testing"
)

// A user is told of everything in the log that says something of the machine.
func TestDocumentsSayWhatALineHolds(t *testing.T) {
	for file, section := range map[string][2]string{
		"../../README.md":                    {"**What a line holds**", "**Prometheus**"},
		"../../configs/pipeline_config.toml": {"[telemetry]", "record_arguments"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), section[0])
		said, _, _ := strings.Cut(rest, section[1])
		for _, word := range []string{"working directory", "configuration", "client"} {
			if !strings.Contains(strings.Join(strings.Fields(said), " "), word) {
				t.Errorf("%s: %s says nothing of the %s", file, section[0], word)
			}
		}
	}
}

package main

import (
	"bufio"
	"strings"
	"testing"
)

// On a terminal, a tool's text has no control characters. Elsewhere it is not changed.
func TestResultOnATerminal(t *testing.T) {
	terminal, screen := pseudoTerminal(t, 80, 24)
	result := []byte(`{"content":[{"type":"text","text":"\u001b[2Ja\tb"}]}`)
	if err := printResult(terminal, result, false); err != nil {
		t.Fatal(err)
	}
	shown, err := bufio.NewReader(screen).ReadString('\n')
	if err != nil || strings.Contains(shown, "\x1b") || !strings.HasPrefix(shown, "?[2Ja\tb") {
		t.Errorf("on a terminal: got %q, %v", shown, err)
	}
	var file strings.Builder
	if err := printResult(&file, result, false); err != nil || file.String() != "\x1b[2Ja\tb\n" {
		t.Errorf("elsewhere: got %q, %v", file.String(), err)
	}
}

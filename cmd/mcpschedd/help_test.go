package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Every command says how it is used by an example, in lines that fit a terminal.
func TestHelp(t *testing.T) {
	root := rootCommand()
	addCommands(root, nil)
	for _, c := range append(root.Commands(), root) {
		if c.Example == "" {
			t.Errorf("%s: no example", c.CommandPath())
		}
		var text strings.Builder
		c.SetOut(&text)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String()) {
			if len([]rune(line)) > 90+1 {
				t.Errorf("%s: a line of %d characters: %s", c.CommandPath(), len(line), line)
			}
		}
	}
}

// Each command has a page of the manual. make man names the folder that they go to.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if wanted := os.Getenv("MCPSCHEDD_MAN"); wanted != "" {
		dir = wanted
	}
	root := rootCommand()
	addCommands(root, nil)
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "mcpschedd"}, dir); err != nil {
		t.Fatal(err)
	}
	visible := func(c *cobra.Command) bool { return c.IsAvailableCommand() && c.Name() != "help" }
	for _, c := range root.Commands() {
		page, err := os.ReadFile(filepath.Join(dir, "mcpschedd-"+c.Name()+".1"))
		if visible(c) && (err != nil || !strings.Contains(string(page), ".SH EXAMPLE")) {
			t.Errorf("%s: got %v, want a page with an example", c.Name(), err)
		}
	}
}

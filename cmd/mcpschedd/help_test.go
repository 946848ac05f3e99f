package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"mcpschedd/internal/daemon"
)

// The help of every command has an example, and its lines fit a terminal.
func TestHelp(t *testing.T) {
	root := rootCommand()
	addCommands(root)
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

// A flag with a wrong value, or without one, says what it accepts.
func TestFlagErrors(t *testing.T) {
	root := rootCommand()
	addCommands(root)
	refused := make(map[string]int) // type of the flag → refused values
	for _, c := range root.Commands() {
		if c.Name() == daemon.HookCommand { // never fails
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, word := range []string{"--" + f.Name + `="x`, "--" + f.Name} {
				err := c.ParseFlags([]string{word})
				if err == nil {
					continue // any text is a value, or none is needed
				}
				refused[f.Value.Type()]++
				if got := c.FlagErrorFunc()(c, err).Error(); !strings.HasPrefix(got, "--"+f.Name+": want ") || strings.Contains(got, "pars") {
					t.Errorf("%s %s: got %q, want what is expected", c.CommandPath(), word, got)
				}
			}
		})
	}
	for kind, want := range map[string]int{"bool": 10, "int": 4, "duration": 4, "float64": 2, "stringSlice": 2, "string": 10} {
		if refused[kind] < want {
			t.Errorf("flags of the type %s: got %d refusals, want at least %d", kind, refused[kind], want)
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
	addCommands(root)
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

// A command fails if its output cannot be written.
func TestUnwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	writeFile(t, file, "[server]\nstate_dir = \"state\"\n[upstreams.x]\ncommand = \"x\"\n")
	readOnly, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	for _, args := range [][]string{
		{"help"}, {"--help"}, {"--version"}, {"version"}, {"completion"}, {"completion", "bash"}, {"check", file}, {"explain", "x/y", "--config", file},
		{"stats", "--config", file}, {"import", "--config", file}, {"remove", "x", "--config", file},
	} {
		var stderr strings.Builder
		if code := run(t.Context(), args, readOnly, &stderr); code != exitFailed || strings.Count(stderr.String(), "error: write "+os.DevNull) != 1 {
			t.Errorf("%s: got %d and %q, want %d and one error", args, code, stderr.String(), exitFailed)
		}
	}
}

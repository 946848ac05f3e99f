package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/config"
)

// hostile are names that would begin a table of their own if they were not escaped.
var hostile = []string{
	"x\n[upstreams.evil]\ncommand = 'touch'\n#",
	"x\r[upstreams.evil]\rcommand = 'touch'\r#",
	"x\r\n[upstreams.evil]\r\ncommand = 'touch'\r\n#",
	"x\u2028[upstreams.evil]\u2028command = 'touch'\u0085#",
	"x]\n[upstreams.evil]\ncommand = 'touch'",
	"\"]\n[upstreams.evil]\ncommand = 'touch' #",
	"'''\n[upstreams.evil]\ncommand = 'touch' #",
	`"""` + "\n[upstreams.evil]\ncommand = 'touch' #",
	"x\x1b[2J\x7f\u202e\tx",
	`x\n[upstreams.evil]`,
	"evil.command",
	`a" # b`,
	"\xff\xfe\n[upstreams.evil]\ncommand = 'touch'",
}

// The names of files, servers, variables and headers, and all values, are foreign text. They are
// imported as they are, and add nothing else to the configuration.
func TestImportOfHostileNames(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files on Windows cannot have these names")
	}
	for _, name := range hostile {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), strings.ReplaceAll(name, "/", "_"))
			t.Setenv("HOME", filepath.Dir(dir))
			t.Setenv("XDG_STATE_HOME", "")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			file, written := filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+".json"), filepath.Join(filepath.Dir(dir), "c.toml")
			text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
				name: map[string]any{
					"command": "/bin/" + name, "args": []string{name, "--token", name, "--" + name}, "env": map[string]string{"TOKEN": name, "A": name},
					"cwd": "/" + name, "disabledTools": []string{name}, name: 1, "type": "stdio",
				},
				"away " + name: map[string]any{"url": "https://h/mcp", "headers": map[string]string{"X-Key": "a"}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, file, string(text))

			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), []string{"import", file}, &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			wantImported(t, "/x/c.toml", stdout.Bytes(), name)
			oneLineEach(t, stderr.String())
			stderr.Reset()
			if code := run(t.Context(), []string{"import", file, "--write", "--config", written}, &stdout, &stderr); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr.String())
			}
			oneLineEach(t, stderr.String())
			text, err = os.ReadFile(written)
			if err != nil {
				t.Fatal(err)
			}
			c := wantImported(t, written, text, name)
			started := slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Command != "" })
			if r, err := c.Upstreams[started].Resolve(os.LookupEnv); err != nil || r.Env["A"] != string([]rune(name)) || r.Env["TOKEN"] != string([]rune(name)) {
				t.Errorf("got %q, %v", map[string]string(r.Env), err)
			}
		})
	}
}

// wantImported parses an imported configuration. It must have the two servers and nothing else.
func wantImported(t *testing.T, path string, text []byte, name string) *config.Config {
	t.Helper()
	c, err := config.Default().Parse(path, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var names []string
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
		if u.Command != "" {
			name := string([]rune(name)) // decoded as from JSON
			if u.Command != "/bin/"+name || u.Cwd != "/"+name || len(u.Args) != 4 || u.Args[0] != name {
				t.Errorf("got %q in %q with %q, want all to hold %q", u.Command, u.Cwd, u.Args, name)
			}
		}
	}
	if len(names) != 2 || slices.Contains(names, "evil") {
		t.Errorf("got the upstreams %q, want two\n%s", names, text)
	}
	for key := range c.Positions {
		if !strings.HasPrefix(key, "upstreams") {
			t.Errorf("got the key %s, want upstreams alone", key)
		}
	}
	return c
}

// oneLineEach checks that foreign text begins no line of a text that a user may read, or paste
// into a shell.
func oneLineEach(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "mcpschedd: ") && !strings.HasPrefix(line, "  ") {
			t.Errorf("got the line %q in\n%s", line, text)
		}
		if strings.ContainsAny(line, "\r\x1b\x7f\u2028\u0085\u202e") {
			t.Errorf("got %q, want only what prints", line)
		}
	}
}

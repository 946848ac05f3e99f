package proxy_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// A git command that only reads invalidates no cached answer, unless the repository's
// configuration names a program that git runs.
func TestGitThatIsQuiet(t *testing.T) {
	home := t.TempDir()
	up := child(t, mcptest.Options{Name: "one"})
	up.Spec.Command.Env = append(up.Spec.Command.Env, "HOME="+home)
	c := connect(t, start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour), classified("one/pid", valuemodel.Shell)}, up)), handshake)
	c.call("pid", `{}`)

	const core = "[core]\n\tbare = false\n[commit]\n\tgpgsign = true\n"
	tests := []struct {
		name    string
		files   map[string]string // in the repository; names that begin with ~ are in the home directory
		command string
		quiet   bool
	}{
		{"plain", nil, "status", true},
		{"plain, from a folder in it", nil, "-C src log -p", true},
		{"a diff through head", nil, "diff | head -5", true},
		{"an alias, a name", map[string]string{"~/.gitconfig": "[user]\n\tname = x\n[alias]\n\tst = status\n"}, "status -sb", true},
		{"a write", nil, "add .", false},
		{"a setting of its own", nil, "-c core.fsmonitor=x status", false},
		{"a file to write", nil, "diff --output=x", false},
		{"fsmonitor", map[string]string{".git/config": core + "[core]\n\tFSMonitor = /x\n"}, "status", false},
		{"textconv", map[string]string{".git/config": core + "[diff \"x\"]\n\ttextconv = x\n"}, "show", false},
		{"a filter", map[string]string{"~/.gitconfig": "[filter \"lfs\"]\n\tclean = x\n"}, "status", false},
		{"a filter, by the newer name", map[string]string{"~/.config/git/config": "[filter \"lfs\"]\n\tclean = x\n"}, "status", false},
		{"an external diff", map[string]string{".git/config.worktree": "[diff]\n\texternal = x\n"}, "diff", false},
		{"signatures", map[string]string{".git/config": "[log]\n\tshowSignature = true\n"}, "log -p", false},
		{"included", map[string]string{".git/config": "[include]\n\tpath = ../x\n"}, "status", false},
		{"hooks elsewhere", map[string]string{".git/config": "[core]\n\thooksPath = x\n"}, "status", false},
		{"a hook", map[string]string{".git/hooks/post-index-change": "#!/bin/sh\n"}, "status", false},
		{"submodules", map[string]string{".gitmodules": ""}, "status", false},
		{"a format that verifies signatures", map[string]string{".git/config": "[format]\n\tpretty = %h %G?\n"}, "log", false},
		{"another's configuration", map[string]string{".git/commondir": "../../other/.git"}, "status", false},
		{"an index", map[string]string{".git/index": "DIRC\x00\x00\x81\xa4"}, "status", true},
		{"a repository in the index", map[string]string{".git/index": "DIRC\x00\x00\xe0\x00"}, "status", false},
		{"an index in two parts", map[string]string{".git/sharedindex.0": ""}, "status", false},
		{"submodules that were", map[string]string{".git/modules/x": ""}, "status", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "repository")
			files := map[string]string{"src/a": "", ".git/HEAD": "", ".git/objects/info/packs": "", ".git/refs/heads/main": "", ".git/config": core}
			maps.Copy(files, tt.files)
			for name, text := range files {
				path := filepath.Join(dir, name)
				if rest, ok := strings.CutPrefix(name, "~"); ok {
					path = filepath.Join(home, rest)
					t.Cleanup(func() { os.Remove(path) })
				}
				if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			arguments, _ := json.Marshal(map[string]string{"command": "git -C " + dir + " " + tt.command})
			c.call("echo", `{"a":1}`)
			if how := disposition(t, c.call("echo", `{"a":1}`)); how != "hit" {
				t.Fatalf("before: got %s, want hit", how)
			}
			c.call("pid", string(arguments))
			want := "fetched"
			if tt.quiet {
				want = "hit"
			}
			if how := disposition(t, c.call("echo", `{"a":1}`)); how != want {
				t.Errorf("git %s: got %s, want %s", tt.command, how, want)
			}
		})
	}
}

package clients_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/clients"
)

// reader returns a reader on a Linux machine with the given files.
func reader(files map[string]string) *clients.Reader {
	return newReader(clients.Options{Machine: clients.Machine{OS: "linux", Home: "/home/ann"}, ReadFile: func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}})
}

// ruled returns a reader that has read Claude Code's file.
func ruled(t *testing.T, files map[string]string) *clients.Reader {
	t.Helper()
	r := reader(files)
	if err := r.Read("/home/ann/.claude.json", []byte(files["/home/ann/.claude.json"])); err != nil {
		t.Fatal(err)
	}
	return r
}

const claudeFile = `{
	"mcpServers": {"git hub": {"command": "gh"}, "fs": {"command": "fs", "autoApprove": ["read"]}},
	"projects": {"/p": {"mcpServers": {"notes": {"command": "notes"}, "fs": {"command": "./fs"}}}, "/home/ann": {}}
}`

func TestDeny(t *testing.T) {
	r := ruled(t, map[string]string{
		"/home/ann/.claude.json":                   claudeFile,
		"/etc/claude-code/managed-settings.json":   `{"permissions": {"deny": ["mcp__git_hub", "mcp__fs_other__x", "mcp__f", "Bash(rm *)"]}}`,
		"/home/ann/.claude/settings.json":          `{"permissions": {"deny": ["mcp__fs__write_*", "mcp__fs__run(args)"]}}`,
		"/p/.claude/settings.local.json":           `{"permissions": {"deny": ["mcp__notes__remove", "mcp__fs__move"]}}`,
		"/nowhere/.claude/settings.json":           `{"permissions": {"deny": ["mcp__fs__read"]}}`,
		"/home/ann/.claude/settings.local.json":    `{"permissions": {"deny": ["mcp__notes"]}`, // cannot be parsed, which is reported
		"/home/ann/.claude/agents/not-settings.md": `mcp__fs`,
	})
	r.Deny()
	got := make(map[string][]string)
	for _, s := range r.Servers() {
		got[s.Name] = s.Block.DenyTools
	}
	want := map[string][]string{
		"git-hub": {"*"}, "fs": {"move", "run", "write_*"}, "fs-2": {"move", "run", "write_*"}, "notes": {"remove"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.ContainsFunc(r.Notes(), func(n string) bool { return strings.Contains(n, "settings.local.json") }) {
		t.Errorf("got %v", r.Notes())
	}
}

// A server that two clients have becomes one upstream, whichever client is read first. One with other settings
// becomes another, which Claude Code is offered too, and so is the same one under another name.
func TestDenyForTwoClients(t *testing.T) {
	files := map[string]string{
		"/home/ann/.cursor/mcp.json":      `{"mcpServers": {"fs": {"command": "fs"}, "own": {"command": "own"}, "fs same": {"command": "fs"}, "other": {"command": "fs", "env": {"A": "b"}}}}`,
		"/home/ann/.codeium/mcp.json":     `{"mcpServers": {"fs": {"command": "fs", "cwd": "/srv"}}}`,
		"/home/ann/.claude.json":          `{"mcpServers": {"fs": {"command": "fs"}}}`,
		"/home/ann/.claude/settings.json": `{"permissions": {"deny": ["mcp__fs__write", "mcp__own"]}}`,
	}
	r := reader(files)
	for _, path := range []string{"/home/ann/.cursor/mcp.json", "/home/ann/.codeium/mcp.json", "/home/ann/.claude.json"} {
		if err := r.Read(path, []byte(files[path])); err != nil {
			t.Fatal(err)
		}
	}
	r.Deny()
	for _, s := range r.Servers() {
		if want := strings.HasPrefix(s.Plain(), "fs"); slices.Equal(s.Block.DenyTools, []string{"write"}) != want {
			t.Errorf("%s of %s: got %q", s.Name, s.From.Client, s.Block.DenyTools)
		}
	}
}

func TestForbidden(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "",
		`{"allowedMcpServers": [{"serverName": "github"}]}`:                              "does not allow mcpschedd",
		`{"allowedMcpServers": []}`:                                                      "does not allow mcpschedd",
		`{"allowedMcpServers": [{"serverName": "github"}, {"serverName": "mcpschedd"}]}`: "",
		`{"deniedMcpServers": [{"serverName": "mcpschedd"}]}`:                            "does not allow mcpschedd",
	} {
		r := ruled(t, map[string]string{"/home/ann/.claude.json": claudeFile, "/etc/claude-code/managed-settings.json": text})
		if got := r.Forbidden("/home/ann/.claude.json"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q", text, got)
		}
	}
	r := ruled(t, map[string]string{"/home/ann/.claude.json": claudeFile, "/etc/claude-code/managed-mcp.json": `{"mcpServers": {}}`})
	if got := r.Forbidden("/home/ann/.claude.json"); !strings.Contains(got, "managed-mcp.json") {
		t.Errorf("got %q", got)
	}
}

// Where another server is called mcpschedd and stays, the file cannot be changed.
func TestForbiddenByName(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"mcpschedd": {"url": "https://h.example/mcp"}, "s": {"command": "x"}}}`:                                        "mcpschedd is another server there",
		`{"mcpServers": {"mcpschedd": {"command": 1}, "s": {"command": "x"}}}`:                                                          "mcpschedd is another server there",
		`{"mcpServers": {"mcpschedd": {"url": "https://h.example/mcp"}}}`:                                                               "", // nothing is replaced
		`{"mcpServers": {"mcpschedd": {"command": "theirs"}, "s": {"command": "x"}}}`:                                                   "",
		`{"mcpServers": {"mcpschedd": {"url": "https://h.example/mcp"}, "s": {"command": "x"}, "ours": {"command": "/bin/mcpschedd"}}}`: "",
		`{"mcpServers": {"mcpschedd": {"command": "mcpschedd", "args": ["serve", "--only=a"]}, "s": {"command": "x"}}}`:                 "for --only one",
		`{"mcpServers": {"mcpschedd": {"command": "mcpschedd", "args": ["connect"], "disabled": true}, "s": {"command": "x"}}}`:         "switched off",
		`{"mcp": {"allowed": {"type": "local", "command": ["x"]}}}`:                                                                     "", // a server of OpenCode, not a setting of Gemini CLI
	} {
		r := newReader(clients.Options{})
		if err := r.Read("/a/mcp.json", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := r.Forbidden("/a/mcp.json"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestRewrites(t *testing.T) {
	r := ruled(t, map[string]string{
		"/home/ann/.claude.json":          claudeFile,
		"/home/ann/.claude/settings.json": `{"permissions": {"allow": ["mcp__fs__read", "mcp__notes", "mcp__fsx__a"], "ask": ["mcp__git_hub__*"]}}`,
		"/p/.claude/settings.local.json":  `{"permissions": {"allow": ["mcp__fs", "mcp__notes__a"]}}`,
		"/p/.claude/settings.json":        `{"hooks": {"PreToolUse": [{"matcher": "mcp__notes__.*|mcp__fs__a"}]}}`,
	})
	want := map[string]string{
		"/home/ann/.claude/settings.json": `{"permissions": {"allow": ["mcp__mcpschedd__fs__read", "mcp__notes", "mcp__fsx__a"], "ask": ["mcp__mcpschedd__git-hub__*"]}}`,
		"/p/.claude/settings.local.json":  `{"permissions": {"allow": ["mcp__mcpschedd__fs-2__*", "mcp__mcpschedd__notes__a"]}}`,
		"/p/.claude/settings.json":        `{"hooks": {"PreToolUse": [{"matcher": "mcp__mcpschedd__notes__.*|mcp__mcpschedd__fs-2__a"}]}}`,
	}
	got := make(map[string]string)
	for _, w := range r.Rewrites(nil, true) {
		got[w.Path] = string(w.Text)
		if w.Shared != (w.Path == "/p/.claude/settings.json") {
			t.Errorf("%s: checked in: %v", w.Path, w.Shared)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, w := range r.Rewrites([]clients.Move{{Name: "notes", Folder: "/p", Upstream: "notes"}}, false) {
		if want := (clients.Rename{From: "mcp__notes__", To: "mcp__mcpschedd__"}); w.Path == "/p/.claude/settings.json" && !slices.Contains(w.Renamed, want) {
			t.Errorf("got %v", w.Renamed)
		}
	}
	for i := range r.Servers() {
		r.Servers()[i].Stays = "it is special"
	}
	if got := r.Rewrites([]clients.Move{{Name: "fs", Upstream: "fs"}}, true); len(got) > 0 {
		t.Errorf("got %v, want the rules for the servers that the client has again as they are", got)
	}
}

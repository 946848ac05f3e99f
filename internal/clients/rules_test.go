package clients_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/clients"
)

// ruled is a reader of Claude Code's file beside some others, on a Linux machine.
func ruled(t *testing.T, files map[string]string) *clients.Reader {
	t.Helper()
	r := clients.NewReader(clients.Options{Machine: clients.Machine{OS: "linux", Home: "/home/ann"}, ReadFile: func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, os.ErrNotExist
	}})
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
		"/home/ann/.claude/settings.local.json":    `{"permissions": {"deny": ["mcp__notes"]}`, // cannot be parsed, and is said
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
	if !slices.ContainsFunc(r.Notes(), func(n clients.Note) bool { return n.Wrong && strings.Contains(n.Where, "settings.local.json") }) {
		t.Errorf("got %v", r.Notes())
	}
}

func TestForbidden(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "",
		`{"allowedMcpServers": [{"serverName": "github"}]}`:                              "mcpschedd is none of them",
		`{"allowedMcpServers": []}`:                                                      "mcpschedd is none of them",
		`{"allowedMcpServers": [{"serverName": "github"}, {"serverName": "mcpschedd"}]}`: "",
		`{"deniedMcpServers": [{"serverName": "mcpschedd"}]}`:                            "denies mcpschedd",
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

func TestRuleNames(t *testing.T) {
	r := ruled(t, map[string]string{"/home/ann/.claude.json": claudeFile})
	want := "mcp__git_hub__TOOL is mcp__mcpschedd__github__TOOL"
	if got := r.Servers()[0].RuleNames("github"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package clients_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/state"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// oddFiles returns files in unusual formats. Each has a server "s" and others that are imported,
// and a word "keep" that must stay.
func oddFiles() map[string]string {
	const one = `"s": {"command": "x", "env": {"TOKEN": "hunter2"}}`
	plain := "{\n  \"keep\": 1,\n  \"mcpServers\": {\n    " + one + ",\n    \"t\": {\"command\": \"y\"}\n  },\n  \"z\": [1, 2]\n}\n"
	all := map[string]string{
		"plain.json": plain, "one line.json": `{"keep":1,"mcpServers":{` + one + `}}`, "no end of line.json": strings.TrimSpace(plain),
		"tabs.json": strings.ReplaceAll(plain, "  ", "\t"), "crlf.json": strings.ReplaceAll(plain, "\n", "\r\n"), "cr in places.json": strings.Replace(plain, "\n", "\r\n", 2),
		"bom.json":                  "\ufeff" + plain,
		"trailing commas.json":      strings.NewReplacer("}\n  },", "},\n  },", "[1, 2]", "[1, 2,],").Replace(plain),
		"line comments.json":        "// keep\n" + strings.NewReplacer(`"s":`, "// of s\n    \"s\":", "}},\n", "}}, // behind s\n").Replace(plain),
		"block comments.json":       strings.NewReplacer(`"s":`, `/* a */ "s" /* b */ : /* c */`, "}},", "}} /* d, */ , /* e */").Replace(plain),
		"comment before comma.json": strings.Replace(plain, "}},\n", "}} // no comma yet\n    ,\n", 1),
		"comment at the end.json":   plain + "// keep", "braces in comments.json": strings.Replace(plain, "1,\n", "1, // }{[\"\n", 1),
		"duplicate servers.json":          strings.Replace(plain, one, one+`, "s": {"command": "later"}`, 1),
		"null beside.json":                `{"keep": null, "mcpServers": {` + one + `, "n": null}}`,
		"windows paths.json":              `{"keep":1,"mcpServers":{"s":{"command":"C:\\Program Files\\nodejs\\npx.cmd","args":["-y","C:\\x \\\"y\\\""]}}}`,
		"escapes.json":                    `{"keep":"\u00e9\/\ud83d\ude00","mcpServers":{"\u0073":{"command":"x\u0020y"},"a\"b\\c\n":{"command":"z"}}}`,
		"unknown keys.json":               `{"keep":{"deep":[{"mcpServers":{"s":1}}]},"mcpServers":{"s":{"command":"x","future":{"a":1}}},"$schema":"x"}`,
		"big numbers.json":                `{"keep":123456789012345678901234567890.10e+05,"mcpServers":{` + one + `}}`,
		"blank lines.json":                "\n\n{\n\n\n  \"keep\": 1,\n\n  \"mcpServers\": {\n\n    " + one + "\n\n\n  }\n\n}\n\n\n",
		"comma first.json":                "{ \"keep\": 1\n, \"mcpServers\":\n  { " + one + "\n  , \"t\": {\"command\": \"y\"}\n  }\n}",
		"brace alone.json":                "{\n\"keep\":1,\n\"mcpServers\":\n{\n" + one + "\n}\n}",
		"stays first.json":                `{"keep":1,"mcpServers":{"web":{"url":"https://h.example/mcp"},` + one + `}}`,
		"stays last.json":                 "{\"keep\":1,\"mcpServers\":{\n  " + one + ",\n  \"t\":{\"command\":\"y\"}, // t\n  \"web\":{\"url\":\"https://h.example/mcp\"} // web\n}}",
		"stays between.json":              "{\"keep\":1,\"mcpServers\":{\n  " + one + ",\n  \"web\":{\"url\":\"https://h.example/mcp\"},\n  \"t\":{\"command\":\"y\"},\n}}",
		"stays before a comma.json":       "{\"mcpServers\":{\n  " + one + ",\n  \"web\":{\"url\":\"https://h.example/mcp\"} // keep\n\n  , \"t\":{\"command\":\"y\"}\n}}",
		"broken beside.json":              `{"keep":1,"mcpServers":{"b":{"command":1},` + one + `,"c":"text"}}`,
		"ours already.json":               `{"keep":1,"mcpServers":{"mcpschedd":{"command":"/bin/mcpschedd","args":["serve"]},` + one + `}}`,
		"ours is another.json":            `{"keep":1,"mcpServers":{"mcpschedd":{"command":"theirs"},` + one + `}}`,
		"vscode.json":                     `{"servers":{` + one + `},"inputs":[{"id":"keep","type":"promptString"}],}`,
		"settings.json":                   `{"keep":1,"mcp":{"inputs":[],"servers":{` + one + `}}}`,
		"dotted settings.json":            `{"keep":1,"mcp.servers":{` + one + `}}`,
		"zed.json":                        "// Zed\n{\"keep\": 1, \"context_servers\": {\"s\": {\"command\": \"x\", \"args\": []}}}",
		"opencode.jsonc":                  `{"keep":1,"mcp":{"s":{"type":"local","command":["x","y"]}}}`,
		"codex.toml":                      "# keep\nmodel = \"m\"\n\n[mcp_servers.s] # s\ncommand = \"x\"\n\n[mcp_servers.s.env]\nA = \"b\"\n\n# of the next\n[tui]\nx = 1\n",
		"codex at the end.toml":           "keep = 1\n[mcp_servers.s]\ncommand = \"x\"\nargs = [\n  \"a\", # b\n]",
		"codex crlf.toml":                 "keep = 1\r\n[mcp_servers.s]\r\ncommand = 'C:\\x'\r\n[mcp_servers.\"t t\"]\r\ncommand = \"y\"\r\n",
		"codex apart.toml":                "keep = 1\n[mcp_servers]\n[mcp_servers.s]\ncommand = \"x\"\n[other]\na = 1\n[mcp_servers.t]\ncommand = \"y\"\nenv = { A = \"[mcp_servers.q]\" }\n",
		"codex bom.toml":                  "\ufeffkeep = '''\n[mcp_servers.no]\n'''\n[ mcp_servers . s ]\ncommand = \"x\"\n",
		".claude.json":                    "{\n  \"keep\": 1,\n  \"mcpServers\": {},\n  \"projects\": {\n    \"/p\": {\n      \"mcpServers\": {\n        " + one + "\n      }\n    },\n    \"/q\": {\"mcpServers\": {\"t\": {\"command\": \"y\"}}, \"history\": []}\n  }\n}",
		"no table of its own.claude.json": `{"keep":1,"projects":{"/p":{"mcpServers":{` + one + `}}}}`,
	}
	for i, indent := range []string{"", " ", "    ", "\t\t"} {
		all[fmt.Sprintf("many %d.json", i)] = "{\"keep\":0,\"mcpServers\":{" + strings.TrimSuffix(strings.Repeat("\n"+indent+`"X": {"command": "x"},`, 30), ",") + "\n}}"
		all[fmt.Sprintf("many %d.json", i)] = strings.NewReplacer("X", "s").Replace(all[fmt.Sprintf("many %d.json", i)])
	}
	return all
}

// imported is a file in a folder of its own, after an import.
type imported struct {
	path, before, after string
	dir                 state.Dir
}

func importFile(t *testing.T, name, text string) imported {
	t.Helper()
	home := t.TempDir()
	if strings.HasSuffix(name, ".claude.json") {
		name = ".claude.json"
	}
	i := imported{path: filepath.Join(home, name), before: text}
	if err := os.WriteFile(i.path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	var err error
	if i.dir, err = state.Open(filepath.Join(home, "state")); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.Apply(i.dir, []string{i.path}, changes(t, home, i.path), noon); err != nil {
		t.Fatal(err)
	}
	i.after = content(t, i.path)
	return i
}

// changes returns the changes that make a client start mcpschedd.
func changes(t *testing.T, home, path string) []clients.Change {
	t.Helper()
	r := newReader(clients.Options{Machine: clients.Machine{Home: home}})
	if err := r.Read(path, []byte(content(t, path))); err != nil {
		t.Fatal(err)
	}
	pointed, err := r.Point([]string{"/opt/a b/mcpschedd-small", "connect"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pointed
}

// itself returns the notes about entries that are mcpschedd itself.
func itself(r *clients.Reader) []string {
	return slices.DeleteFunc(slices.Clone(r.Notes()), func(n string) bool { return !strings.Contains(n, "this is mcpschedd itself") })
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func undo(t *testing.T, dir state.Dir) []string {
	t.Helper()
	done, err := clients.Undo(dir, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// TestImportAndUndo: an import replaces the servers in a file with mcpschedd and preserves
// everything else. Undo restores the file, byte for byte.
func TestImportAndUndo(t *testing.T) {
	files := oddFiles()
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			i := importFile(t, name, text)
			after := i.after
			if !strings.Contains(after, "keep") || !strings.Contains(after, "mcpschedd") || strings.Contains(after, "hunter2") || strings.Count(after, "mcpschedd\"")+strings.Count(after, "mcpschedd]") == 0 {
				t.Errorf("got\n%s", after)
			}
			if strings.Contains(text, "\r\n") && !strings.Contains(text, "in places") && strings.Count(i.before, "\n")-strings.Count(i.before, "\r\n") == 0 && strings.Count(i.after, "\n") != strings.Count(i.after, "\r\n") {
				t.Errorf("other line ends: %q", i.after)
			}
			if _, rest, ok := strings.Cut(text, `"z": [`); ok && !strings.HasSuffix(after, `"z": [`+rest) {
				t.Errorf("the text after the servers has changed:\n%s", after)
			}
			for line := range strings.Lines(after) {
				if strings.Contains(name, "json") && !strings.Contains(text, "\n\n") && strings.TrimSpace(line) == "" {
					t.Errorf("there is a new blank line:\n%s", after)
				}
			}
			again := newReader(clients.Options{Machine: clients.Machine{Home: filepath.Dir(i.path)}})
			if err := again.Read(i.path, []byte(i.after)); err != nil || len(itself(again)) != 1 {
				t.Errorf("got %v, %q of\n%s", err, itself(again), after)
			}
			for _, s := range again.Servers() {
				if s.Stays == "" {
					t.Errorf("%s is still there:\n%s", s.Name, after)
				}
			}
			undo(t, i.dir)
			if got := content(t, i.path); got != text {
				t.Errorf("got  %q\nwant %q", got, text)
			}
			if s, err := os.Stat(i.path); err != nil || runtime.GOOS != "windows" && s.Mode().Perm() != 0o640 {
				t.Errorf("got %v, %v", s.Mode(), err)
			}
		})
	}
}

// TestUndoOfAChangedFile: undo keeps later changes of the file, removes mcpschedd, and restores
// the servers and the comments above them.
func TestUndoOfAChangedFile(t *testing.T) {
	for name, text := range oddFiles() {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "ours already") {
				t.Skip("changed as text below")
			}
			i := importFile(t, name, text)
			changed := strings.Replace(i.after, "keep", "kept", 1)
			if err := os.WriteFile(i.path, []byte(changed), 0o640); err != nil {
				t.Fatal(err)
			}
			done := undo(t, i.dir)
			if len(done) != 1 || !strings.Contains(done[0], "changed since") {
				t.Errorf("got %v", done)
			}
			got := content(t, i.path)
			if strings.Contains(text, "// of s") && !strings.Contains(got, "// of s\n    \"s\":") {
				t.Errorf("the comment above a server is lost:\n%s", got)
			}
			if !strings.Contains(got, "kept") || strings.Count(got, "mcpschedd") != strings.Count(text, "mcpschedd") {
				t.Errorf("got\n%s", got)
			}
			// The servers must be equal to those before the import.
			servers := func(text string) string {
				r := newReader(clients.Options{Machine: clients.Machine{Home: filepath.Dir(i.path)}})
				if err := r.Read(i.path, []byte(text)); err != nil {
					t.Fatalf("%v in\n%s", err, text)
				}
				var all []string
				for _, s := range r.Servers() {
					variables := s.VariablesText()
					all = append(all, s.From.Pointer+string(clients.TOML([]clients.Server{s}))+string(variables))
				}
				slices.Sort(all)
				return strings.Join(all, "")
			}
			if got, want := servers(got), servers(text); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestApplyLeavesAlone: if one file is not as expected, no file is changed.
func TestApplyLeavesAlone(t *testing.T) {
	setup := func(t *testing.T) (home, path string, dir state.Dir) {
		home = t.TempDir()
		path = filepath.Join(home, "mcp.json")
		if err := os.WriteFile(path, []byte(`{"mcpServers":{"s":{"command":"x"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := state.Open(filepath.Join(home, "state"))
		if err != nil {
			t.Fatal(err)
		}
		return home, path, dir
	}
	t.Run("changed between reading and writing", func(t *testing.T) {
		home, path, dir := setup(t)
		other := filepath.Join(home, "ours.toml")
		all := append([]clients.Change{{Path: other, Text: []byte("a = 1\n")}}, changes(t, home, path)...)
		if err := os.WriteFile(path, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Apply(dir, []string{path}, all, noon); err == nil || !strings.Contains(err.Error(), "was changed meanwhile") {
			t.Errorf("got %v", err)
		}
		if _, err := os.Stat(other); err == nil {
			t.Error("an earlier file was written nevertheless")
		}
		if got := content(t, path); got != `{"mcpServers":{}}` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		home, path, dir := setup(t)
		if err := os.Chmod(path, 0o400); err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Apply(dir, []string{path}, changes(t, home, path), noon); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("read-only since", func(t *testing.T) {
		home, path, dir := setup(t)
		if _, err := clients.Apply(dir, []string{path}, changes(t, home, path), noon); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o400); err != nil {
			t.Fatal(err)
		}
		if done, err := clients.Undo(dir, func(string) bool { return true }); err == nil || len(done) > 0 {
			t.Errorf("got %q, %v, want only an error", done, err)
		}
	})
	t.Run("a link", func(t *testing.T) {
		home, path, dir := setup(t)
		link := filepath.Join(home, "link.json")
		if err := os.Symlink(path, link); err != nil {
			t.Skip(err)
		}
		if _, err := clients.Apply(dir, []string{link}, changes(t, home, link), noon); err != nil {
			t.Fatal(err)
		}
		if s, err := os.Lstat(link); err != nil || s.Mode()&os.ModeSymlink == 0 || !strings.Contains(content(t, path), "mcpschedd") {
			t.Errorf("got %v, %v, %s", s, err, content(t, path))
		}
		undo(t, dir)
		if got := content(t, path); got != `{"mcpServers":{"s":{"command":"x"}}}` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("moved since", func(t *testing.T) {
		home, path, dir := setup(t)
		if _, err := clients.Apply(dir, []string{path}, changes(t, home, path), noon); err != nil {
			t.Fatal(err)
		}
		moved := filepath.Join(t.TempDir(), "home")
		if err := os.Rename(home, moved); err != nil {
			t.Skip(err)
		}
		dir, err := state.Open(filepath.Join(moved, "state"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = clients.Undo(dir, func(string) bool { return true })
		if copies, _ := filepath.Glob(dir.Path("import/*/0-mcp.json")); len(copies) != 1 || err == nil || !strings.Contains(err.Error(), copies[0]) {
			t.Errorf("got %v, want an error that names the copy of %q", err, copies)
		}
	})
	t.Run("broken since", func(t *testing.T) {
		home, path, dir := setup(t)
		if _, err := clients.Apply(dir, []string{path}, changes(t, home, path), noon); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(`{"mcpServers"`), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := clients.Undo(dir, func(string) bool { return true }); err == nil {
			t.Error("got no error")
		}
		if got := content(t, path); got != `{"mcpServers"` {
			t.Errorf("got %s", got)
		}
	})
}

// TestUndoOfOneClient: of two imports the first is undone, and what it has added to the configuration with the
// second, also if that is undone by name.
func TestUndoOfOneClient(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir, err := state.Open(filepath.Join(home, "state"))
	if err != nil {
		t.Fatal(err)
	}
	ours := write("ours.toml", "a = 0\n")
	now := noon
	apply := func(client, text string) {
		was := content(t, ours)
		all := []clients.Change{
			{Path: filepath.Join(home, "env", filepath.Base(client)+".env"), Text: []byte("A=b\n")},
			{Path: ours, Was: []byte(was), Text: []byte(was + text)},
		}
		now = now.Add(time.Second)
		if _, err := clients.Apply(dir, []string{client}, append(all, changes(t, home, client)...), now); err != nil {
			t.Fatal(err)
		}
	}
	first, second := write("first.json", `{"mcpServers":{"s":{"command":"x"}}}`), write("second.json", `{"mcpServers":{"t":{"command":"y"}}}`)
	apply(first, "b = 'env/first.json.env'\n")
	apply(second, "c = 2\n")
	if _, err := clients.Undo(dir, func(path string) bool { return path == first }); err != nil {
		t.Fatal(err)
	}
	if content(t, first) != `{"mcpServers":{"s":{"command":"x"}}}` || !strings.Contains(content(t, second), "mcpschedd") {
		t.Errorf("got %s and %s", content(t, first), content(t, second))
	}
	if got := content(t, ours); got != "a = 0\nb = 'env/first.json.env'\nc = 2\n" || content(t, filepath.Join(home, "env", "first.json.env")) != "A=b\n" {
		t.Errorf("got %q, want the changes and variables of the other import kept", got)
	}
	if done, err := clients.Undo(dir, func(path string) bool { return path == "third.json" }); len(done) > 0 || err != nil {
		t.Errorf("got %q, %v of a client without an import, want nothing", done, err)
	}
	if _, err := clients.Undo(dir, func(path string) bool { return path == second }); err != nil {
		t.Fatal(err)
	}
	if got := content(t, ours); got != "a = 0\n" {
		t.Errorf("got %q", got)
	}
	if all, err := os.ReadDir(filepath.Join(home, "env")); err != nil || len(all) > 0 {
		t.Errorf("got %v, %v, want the variables of both removed", all, err)
	}
}

// TestUndoOfChangedFilesOfOurs: undo leaves a file of ours that has changed since. The others are
// restored, but the files of variables stay with the configuration that names them.
func TestUndoOfChangedFilesOfOurs(t *testing.T) {
	for changed, want := range map[string]string{
		"env/b.env": "env/b.env", "ours.toml": "env/a.env ours.toml", "settings.json": "",
	} {
		t.Run(changed, func(t *testing.T) {
			home := t.TempDir()
			dir, err := state.Open(filepath.Join(home, "state"))
			if err != nil {
				t.Fatal(err)
			}
			client, settings := filepath.Join(home, "mcp.json"), filepath.Join(home, "settings.json")
			for path, text := range map[string]string{client: `{"mcpServers":{"s":{"command":"x"}}}`, settings: "{}"} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var all []clients.Change
			for _, name := range []string{"env/a.env", "env/b.env", "ours.toml"} {
				all = append(all, clients.Change{Path: filepath.Join(home, name), Text: []byte("a = 1\n")})
			}
			all = append(all, changes(t, home, client)...)
			all = append(all, clients.Change{Path: settings, Was: []byte("{}"), Text: []byte("{ }"), Hooks: true})
			if _, err := clients.Apply(dir, []string{client}, all, noon); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(home, changed)); err != nil {
				t.Fatal(err)
			}
			if changed != "settings.json" {
				if err := os.WriteFile(filepath.Join(home, changed), []byte("a = 'env/a.env'\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			said := strings.Join(undo(t, dir), "\n")
			if got := strings.Contains(said, "a.env: left with the configuration"); got != (changed == "ours.toml") {
				t.Errorf("got the lines\n%s", said)
			}
			var left []string
			for _, c := range all {
				name, _ := filepath.Rel(home, c.Path)
				if _, err := os.Stat(c.Path); err == nil && c.Path != client && c.Path != settings {
					left = append(left, filepath.ToSlash(name))
				}
			}
			if got := strings.Join(left, " "); got != want {
				t.Errorf("left: %q, want %q", got, want)
			}
		})
	}
}

// TestImportsAtOnce: of two concurrent imports of one file, both can be undone.
func TestImportsAtOnce(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "mcp.json")
	before := []byte(`{"mcpServers":{"s":{"command":"x"}}}`)
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := state.Open(filepath.Join(home, "state"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			one := func() error {
				c := changes(t, home, path)
				if len(c) == 0 { // the other import was first
					return nil
				}
				_, err := clients.Apply(dir, []string{path}, c, noon)
				return err
			}
			err := clients.Locked(dir, one)
			for err != nil && strings.Contains(err.Error(), "another process holds it") { // the other import holds the lock, on a slow disk
				err = clients.Locked(dir, one)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := content(t, path); strings.Count(got, "mcpschedd\":") != 1 {
		t.Errorf("got %s", got)
	}
	undo(t, dir)
	if got := content(t, path); got != string(before) {
		t.Errorf("got %s", got)
	}
	if left, err := filepath.Glob(dir.Path("import/*/*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

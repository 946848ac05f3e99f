package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
)

// What the documents show works: each shell line runs, each TOML block is a valid configuration,
// each JSON block is valid, and a plan in it is a valid plan. Text blocks hold output of programs,
// or drawings.

var update = flag.Bool("update", false, "write the tables of keys into docs/configuration.md")

const top = "../.."

// documents returns the documents for users.
func documents(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(top + "/docs/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("got %d documents, %v", len(names), err)
	}
	return append(names, top+"/README.md")
}

// notRun are beginnings of lines that cannot run in a test, with the reason. Each must occur.
var notRun = map[string]string{
	"make build":      "compiles the program that this test is of; make build and make release do",
	"make release":    "compiles the program for six systems; the test of tools/release builds a small one",
	"cd dist ":        "of what make release leaves",
	"install ":        "of what make build leaves",
	"claude mcp add ": "needs a Claude Code; make claude and make newuser have one",
}

// serving are lines that run until they are stopped, with the text that they print when they are
// ready.
var serving = map[string]string{
	"mcpschedd serve --http":  "http://127.0.0.1:",
	"mcpschedd dashboard":     "http://127.0.0.1:",
	"mcpschedd stats --watch": "Saved ",
}

// ending are lines that begin like those in serving, but end.
var ending = []string{"mcpschedd dashboard --http"}

func TestDocumentsRun(t *testing.T) {
	for _, program := range []string{"sh", "jq", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("the documents' lines need it: %v", err)
		}
	}
	t.Parallel()
	used := make(map[string]bool)
	for _, name := range documents(t) {
		var lines []shellLine
		for _, b := range blocks(t, name) {
			if b.language != "sh" {
				continue
			}
			for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
				if of := beginning(maps.Keys(notRun), line); of != "" {
					used[of] = true
					continue
				}
				lines = append(lines, shellLine{line, fmt.Sprintf("%s:%d", name, b.line+i)})
			}
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			shell := newShell(t)
			for _, line := range lines {
				if err := shell.run(line.text); err != nil {
					t.Fatalf("%s: %s: %v", line.where, line.text, err)
				}
			}
		})
	}
	for of := range notRun {
		if !used[of] {
			t.Errorf("%q: no document has such a line", of)
		}
	}
}

// The command lines in the documents' units are valid.
func TestDocumentsUnits(t *testing.T) {
	command := regexp.MustCompile(`ExecStart=\S*/mcpschedd (.*)|<string>\S*/mcpschedd</string>\s*((?:<string>.*</string>\s*)*)</array>`)
	found := 0
	for _, name := range documents(t) {
		for _, b := range blocks(t, name) {
			for _, m := range command.FindAllStringSubmatch(b.text, -1) {
				words := strings.Fields(regexp.MustCompile("</?string>").ReplaceAllString(m[1]+m[2], " "))
				var out bytes.Buffer
				if code := run(t.Context(), append(words, "--help"), &out, &out); code != 0 || len(words) == 0 {
					t.Errorf("%s:%d: %q: exit code %d\n%s", name, b.line, words, code, &out)
				}
				found++
			}
		}
	}
	if found != 2 {
		t.Errorf("got %d units, want those of systemd and launchd", found)
	}
}

// shellLine is a line of a document for the shell.
type shellLine struct{ text, where string }

func TestDocumentsConfigure(t *testing.T) {
	for _, name := range documents(t) {
		for _, b := range blocks(t, name) {
			where := fmt.Sprintf("%s:%d", name, b.line)
			switch b.language {
			case "toml":
				file := filepath.Join(t.TempDir(), "pipeline_config.toml")
				writeFile(t, file, b.text)
				var out bytes.Buffer
				if code := run(t.Context(), []string{"check", "--config", file}, &out, &out); code != 0 {
					t.Errorf("%s: exit code %d\n%s", where, code, &out)
				}
			case "json":
				var value map[string]json.RawMessage
				if err := json.Unmarshal([]byte(b.text), &value); err != nil {
					t.Errorf("%s: %v", where, err)
				}
				if value["steps"] != nil {
					if _, bad := plan.Parse([]byte(b.text), plan.Options{Limits: config.Default().Plan.Limits, Find: func(name string) *plan.Tool {
						return &plan.Tool{Name: name, Writes: func([]byte) bool { return false }}
					}}); bad != nil {
						t.Errorf("%s: %v", where, bad)
					}
				}
			case "sh", "text", "mermaid":
			default:
				t.Errorf("%s: got a block of %q, want sh, toml, json, text or mermaid", where, b.language)
			}
		}
	}
}

// Links to other documents and to files of the repository have a target.
func TestDocumentsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	for _, name := range append(documents(t), top+"/CHANGELOG.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(to[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(to[1]))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// docs/commands.md has every command and every flag.
func TestDocumentsNameFlags(t *testing.T) {
	text, err := os.ReadFile(top + "/docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	help := func(args ...string) string {
		var out bytes.Buffer
		if code := run(t.Context(), append([]string{"help"}, args...), &out, os.Stderr); code != 0 {
			t.Fatalf("help %q: exit code %d", args, code)
		}
		return out.String()
	}
	flags := regexp.MustCompile(`(?m)^\s+(?:-\w, )?(--[a-z][a-z-]+)`)
	commands := regexp.MustCompile(`(?m)^  ([a-z]+)   *[A-Z]`).FindAllStringSubmatch(help(), -1)
	if len(commands) < 15 {
		t.Errorf("got %d commands in the help, want all", len(commands))
	}
	for _, command := range commands {
		if !regexp.MustCompile("`(mcpschedd )?" + command[1] + "\\b|mcpschedd " + command[1] + `\b`).Match(text) {
			t.Errorf("docs/commands.md: nothing of %s", command[1])
		}
		for _, f := range flags.FindAllStringSubmatch(help(command[1]), -1) {
			if f[1] != "--help" && !bytes.Contains(text, []byte(f[1])) {
				t.Errorf("docs/commands.md: nothing of %s %s", command[1], f[1])
			}
		}
	}
}

// The calls of the demo in the README are calls that the demo makes.
func TestDocumentsShowTheDemo(t *testing.T) {
	out, err := exec.Command("mcpschedd", "demo", "--speed", "1000").Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.SplitSeq(blocks(t, top+"/README.md")[0].text, "\n") {
		call := regexp.MustCompile(`^ +\d+  (.*?)  +\d+ ms`).FindStringSubmatch(line)
		if call == nil {
			continue
		}
		if shown++; !bytes.Contains(out, []byte(call[1])) {
			t.Errorf("the demo plays no %q:\n%s", call[1], out)
		}
	}
	if shown < 5 {
		t.Errorf("got %d calls in the README's first block, want some", shown)
	}
}

// docs/design.md mentions each package and each direct dependency, and the tests and files that
// it names exist.
func TestDocumentsDesign(t *testing.T) {
	design, err := os.ReadFile(top + "/docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(top + "/internal/*")
	if err != nil || len(packages) < 10 {
		t.Fatalf("got packages %q, %v", packages, err)
	}
	for _, p := range packages {
		if !regexp.MustCompile(`\b` + filepath.Base(p) + `\b`).Match(design) {
			t.Errorf("docs/design.md: nothing of package %s", filepath.Base(p))
		}
	}
	required, err := os.ReadFile(top + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(required), -1) {
		name := regexp.MustCompile(`^(github\.com|golang\.org)/|/v\d+$`).ReplaceAllString(m[1], "")
		if strings.HasPrefix(name, "go.opentelemetry.io/") {
			name = "go.opentelemetry.io"
		}
		if !bytes.Contains(design, []byte(name)) && !bytes.Contains(design, []byte(path.Base(name))) {
			t.Errorf("docs/design.md: nothing of the dependency %s", m[1])
		}
	}
	if n := bytes.Count(design, []byte("\n")); n > 300 {
		t.Errorf("docs/design.md: got %d lines, want at most 300", n)
	}
	named := make(map[string]bool) // files and tests → whether they are there
	for _, of := range regexp.MustCompile(`\b(\w+\.go|Test\w+)\b`).FindAllString(string(design), -1) {
		named[of] = false
	}
	read := func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		named[d.Name()] = true
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		for of := range named {
			if strings.HasPrefix(of, "Test") && bytes.Contains(text, []byte("\nfunc "+of)) {
				named[of] = true
			}
		}
		return err
	}
	for _, of := range []string{"cmd", "internal", "tools", "layout_test.go"} { // not .git, as the go command would repeat the test after each commit
		if err := filepath.WalkDir(filepath.Join(top, of), read); err != nil {
			t.Fatal(err)
		}
	}
	for of, is := range named {
		if !is {
			t.Errorf("docs/design.md: there is no %s", of)
		}
	}
}

// The tables of docs/configuration.md are the keys of the shipped configuration, with their
// defaults and comments (go test ./cmd/mcpschedd -run TestDocumentsKeys -update writes them).
func TestDocumentsKeys(t *testing.T) {
	const file, begin, end = top + "/docs/configuration.md", "<!-- keys -->\n", "<!-- end of keys -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, is := strings.Cut(string(text), begin)
	had, after, ends := strings.Cut(rest, end)
	if !is || !ends {
		t.Fatalf("%s: want a place for the tables, from %s to %s", file, begin, end)
	}
	shipped, err := os.ReadFile(top + "/configs/pipeline_config.toml")
	if err != nil {
		t.Fatal(err)
	}
	want := keyTables(string(shipped))
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if had != want {
		t.Errorf("%s: its tables differ from configs/pipeline_config.toml; -update writes them", file)
	}
}

// keyTables returns the blocks of a configuration as tables: key, default or example, meaning.
func keyTables(text string) string {
	header := regexp.MustCompile(`^#?(\[\[?[^\]]*\]\]?)(?:\s+# (.*))?$`)
	key := regexp.MustCompile(`^#?(\w+) = (.*?)(?:\s+# (.*))?$`)
	var b strings.Builder
	block := ""
	for line := range strings.SplitSeq(text, "\n") {
		if h := header.FindStringSubmatch(line); h != nil {
			if h[1] == block { // another example of the same
				block = "an example of it"
				continue
			}
			block = h[1]
			fmt.Fprintf(&b, "\n%s\n\n| key | %s | |\n|---|---|---|\n", strings.TrimSpace("**`"+h[1]+"`** "+h[2]), map[bool]string{true: "for example", false: "default"}[line[0] == '#'])
			continue
		}
		if k := key.FindStringSubmatch(line); k != nil && block != "" && block != "an example of it" {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", k[1], cell(k[2]), cell(k[3]))
		}
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// block is a fenced part of a document.
type block struct {
	language, text string
	line           int // of the first line in it
}

func blocks(t *testing.T, name string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	for i, line := range strings.Split(string(text), "\n") {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &block{language: language, line: i + 2}
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: a block without an end", name, open.line)
	}
	return all
}

// beginning returns the longest of the texts with which the line begins.
func beginning(texts func(func(string) bool), line string) (longest string) {
	for of := range texts {
		if strings.HasPrefix(line, of) && len(of) > len(longest) {
			longest = of
		}
	}
	return longest
}

// plainLine matches lines in which no character means anything to a shell.
var plainLine = regexp.MustCompile(`^[\w ./:=@,-]+$`)

// shell runs the lines of one document in sequence, in a home folder of its own. Claude Code and
// the configuration there have the demo's two servers, under the names github and files, and some
// calls were recorded.
type shell struct {
	t      *testing.T
	env    []string
	dir    string
	port   string  // used instead of 7777
	runner *runner // of lines that need no shell
}

func newShell(t *testing.T) *shell {
	t.Helper()
	home := t.TempDir()
	s := &shell{t: t, dir: home, port: mcptest.FreePort(t), env: append(os.Environ(),
		"HOME="+home, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "MCPSCHEDD_CONFIG=", "MCPSCHEDD_DEMO_SPEED=1000",
		"GORACE=atexit_sleep_ms=0", "TOKEN=not-a-token", "GITHUB_TOKEN=not-a-token", "WIKI_TOKEN=not-a-token")}
	var err error
	if s.runner, err = newRunner(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.runner.close(); err != nil {
			t.Error(err)
		}
	})
	put := func(name, text string) {
		name = filepath.Join(home, name)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put(".config/mcpschedd/pipeline_config.toml", fmt.Sprintf("[upstreams.github]\ncommand = %q\nargs = [\"demo-upstream\", \"tracker\"]\n[upstreams.files]\ncommand = %q\nargs = [\"demo-upstream\", \"files\"]\n[tools.\"github/*_issue*\"]\nside_effect_class = \"read_only\"\n", os.Args[0], os.Args[0]))
	put(".claude.json", fmt.Sprintf(`{"mcpServers": {"tracker": {"command": %q, "args": ["demo-upstream", "tracker"], "env": {"A": "b"}}}}`, os.Args[0]))
	put("calls.jsonl", `{"session":"a","batch":1,"ts_ms":1000,"res_ts_ms":1400,"tool":"get_issue","arguments":{"n":36},"result_text":"open","is_error":false}`+"\n")
	put(".local/state/mcpschedd/logs/mcpschedd.log", "here\n")
	put(".local/state/mcpschedd/logs/upstream-github.log", "there\n")
	var log strings.Builder
	event := func(text string) { fmt.Fprintf(&log, `{"ts":%q,%s}`+"\n", time.Now().Format(time.RFC3339Nano), text) }
	event(`"kind":"begin","v":2,"pid":7,"program":"dev","transport":"stdio","dir":"/p"`)
	event(`"kind":"session","session":"a","client":"claude 2"`)
	for seq := 1; seq < 90; seq += 3 {
		event(fmt.Sprintf(`"kind":"call","session":"a","seq":%d,"upstream":"github","tool":"list_issues","disposition":"fetched","latency_ms":400,"upstream_ms":400,"bytes":9000,"tokens":2000,"sent":1,"turn":%[1]d`, seq))
		event(fmt.Sprintf(`"kind":"prefetch","session":"a","seq":%d,"upstream":"github","tool":"get_issue","latency_ms":300,"bytes":900,"sent":1,"fate":"used","used_by_seq":%d,"after":%d,"edge":"list_issues → get_issue"`, seq+1, seq+2, seq))
		event(fmt.Sprintf(`"kind":"call","session":"a","seq":%d,"upstream":"github","tool":"get_issue","disposition":"hit","latency_ms":1,"bytes":900,"tokens":200,"use_of":%d,"hidden_ms":300,"prefetched":true,"turn":%[1]d`, seq+2, seq+1))
	}
	event(`"kind":"end"`)
	put(".local/state/mcpschedd/events/20260101T100000-7-00aa.000.jsonl", log.String())
	return s
}

// run runs a line, with sh or the runner, and returns when it has ended or is ready. A line that serves is stopped at the
// end of the document.
func (s *shell) run(line string) error {
	serves := beginning(maps.Keys(serving), line)
	if serves != "" && beginning(slices.Values(ending), line) != "" {
		serves = ""
	}
	line = strings.ReplaceAll(line, "127.0.0.1:7777", "127.0.0.1:"+s.port)
	line = strings.ReplaceAll(line, "/tmp/", s.dir+"/")
	if strings.HasPrefix(line, "mcpschedd demo") {
		line += " --speed 1000"
	}
	if serves == "mcpschedd dashboard" {
		line = strings.Replace(line, serves, serves+" --addr 127.0.0.1:0", 1)
		line = strings.Replace(line, " --open", "", 1) // there is no browser here
	}
	if words := strings.Fields(line); serves == "" && words[0] == "mcpschedd" && plainLine.MatchString(line) {
		result, err := s.runner.run(commandLine{words[1:], s.env, s.dir})
		if err == nil && result.Code != 0 {
			err = fmt.Errorf("exit code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
		}
		return err
	}
	if serves != "" {
		line = "exec " + line
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = s.dir, s.env
	if serves == "" {
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		return err
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	var seen strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		fmt.Fprintln(&seen, lines.Text())
		if strings.Contains(lines.Text(), serving[serves]) {
			return nil
		}
	}
	return fmt.Errorf("it ended:\n%s", seen.String())
}

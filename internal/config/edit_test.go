package config_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/config"
)

const edited = `# The servers of a person.
schema_version = 1

# Files of the project.
[upstreams.files]   # here
command = "files"
enabled = true # for now
[upstreams.files.tools]
deny = ["delete_*"]

[upstreams.web]
url = "https://wiki.example/mcp"

# What others may change.
[tools."files/*"]
`

func TestRemoveUpstream(t *testing.T) {
	block := edited[strings.Index(edited, "# Files"):strings.Index(edited, "[upstreams.web]")]
	got, removed, err := config.RemoveUpstream([]byte(edited), "files")
	if want := strings.Replace(edited, block, "", 1); err != nil || string(got) != want || string(removed) != block {
		t.Errorf("got %v\n%s, want\n%s", err, got, want)
	}
	for _, c := range []struct{ before, after string }{
		{"[upstreams.a]\nargs = [\n  # x\n]\n# tail\n\n# Of b.\n[upstreams.b]\n", "# tail\n\n# Of b.\n[upstreams.b]\n"},
		{"[upstreams.a]\n\n# A part of its own.\n\n[upstreams.b]\n", "# A part of its own.\n\n[upstreams.b]\n"},
		{"\ufeff[upstreams.a]\n[upstreams.b]\n", "\ufeff[upstreams.b]\n"},
		{"[upstreams.a]\nargs = ['''x\n# y''']\n# tail\n", "# tail\n"},
		{"[upstreams.a]\ncommand = '''x\n\n# y'''\n# tail\n[b]\n", "# tail\n[b]\n"},
		{"# Top.\n\n[upstreams.a]\n[upstreams.a.env]\nX = '''\n# no comment\n'''\n\n\n# end\n", "# Top.\n\n# end\n"},
	} {
		if left, _, err := config.RemoveUpstream([]byte(c.before), "a"); err != nil || string(left) != c.after {
			t.Errorf("%q: got %q, %v, want %q", c.before, left, err, c.after)
		}
	}
	got, removed, err = config.RemoveUpstream([]byte("[upstreams.a]\ncommand = \"a\""), "a")
	if want := "[upstreams.a]\ncommand = \"a\"\n"; err != nil || len(got) != 0 || string(removed) != want {
		t.Errorf("the only block, without a line end: got %q and %q, %v, want %q", got, removed, err, want)
	}
}

func TestAddUpstreams(t *testing.T) {
	for _, c := range []struct{ before, after string }{
		{"", "[upstreams.b]\nurl = \"x\"\n"},
		{"# Mine.\n", "# Mine.\n\n[upstreams.b]\nurl = \"x\"\n"},
		{"a = 1", "a = 1\n\n[upstreams.b]\nurl = \"x\"\n"},
		{"a = 1\r\n", "a = 1\r\n\r\n[upstreams.b]\r\nurl = \"x\"\r\n"},
	} {
		if got := config.AddUpstreams([]byte(c.before), []byte("[upstreams.b]\nurl = \"x\"\n")); string(got) != c.after {
			t.Errorf("%q: got %q, want %q", c.before, got, c.after)
		}
	}
}

func TestEnableUpstream(t *testing.T) {
	for _, c := range []struct{ name, text, upstream, from, to string }{
		{"a value is set", edited, "files", "enabled = true # for now", "enabled = false # for now"},
		{"a line is added", edited, "web", "[upstreams.web]\n", "[upstreams.web]\nenabled = false\n"},
		{"line ends are kept", "[upstreams.a]\r\ncommand = \"a\"\r\n", "a", "[upstreams.a]\r\n", "[upstreams.a]\r\nenabled = false\r\n"},
		{"a byte order mark is kept", "\ufeff[upstreams.a]\ncommand = \"a\"\n", "a", "]\n", "]\nenabled = false\n"},
		{"nothing below the header", "[upstreams.a]", "a", "[upstreams.a]", "[upstreams.a]\nenabled = false\n"},
		{"a quoted name", "[upstreams.'a b']\ncommand = \"a\"\n", "a b", "]\n", "]\nenabled = false\n"},
	} {
		got, err := config.EnableUpstream([]byte(c.text), c.upstream, false)
		if want := strings.Replace(c.text, c.from, c.to, 1); err != nil || string(got) != want {
			t.Errorf("%s: got %v\n%q, want\n%q", c.name, err, got, want)
		}
		again, err := config.EnableUpstream(got, c.upstream, true)
		if err != nil || strings.TrimSuffix(string(again), "\n") != strings.TrimSuffix(c.text, "\n") {
			t.Errorf("%s, and enabled again: got %v\n%q, want\n%q", c.name, err, again, c.text)
		}
	}
}

func TestDenyTools(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"none", "[upstreams.a]\n", "[upstreams.a]\ntools.deny = [\"x\", \"[y]\"]\n"},
		{"a key", "[upstreams.a]\ntools.deny = [\"b\"] # mine\n", "[upstreams.a]\ntools.deny = [\"b\", \"x\", \"[y]\"] # mine\n"},
		{"an inline table", "\ufeff[upstreams.a]\ntools = { deny = [ 'b' ], allow = ['*'] }\n", "\ufeff[upstreams.a]\ntools = { deny = [ 'b', \"x\", \"[y]\" ], allow = ['*'] }\n"},
		{"a table", "[upstreams.a]\n[upstreams.b.tools]\ndeny = ['c']\n[upstreams.a.tools]\ndeny = [\n  \"b\", # ]\n]\n",
			"[upstreams.a]\n[upstreams.b.tools]\ndeny = ['c']\n[upstreams.a.tools]\ndeny = [\n  \"b\", \"x\", \"[y]\", # ]\n]\n"},
		{"a text of lines", "[upstreams.a]\ntools.deny = [\"\"\"\n]\n\"\"\"]", "[upstreams.a]\ntools.deny = [\"\"\"\n]\n\"\"\", \"x\", \"[y]\"]"},
	} {
		got, err := config.DenyTools([]byte(c.before), "a", []string{"x", "[y]"})
		if err != nil || string(got) != c.after {
			t.Errorf("%s: got %v\n%q, want\n%q", c.name, err, got, c.after)
		}
	}
}

func TestPrefixNames(t *testing.T) {
	const block = "[server]\nname_style = \"always\" # rules of clients name tools\n"
	for before, want := range map[string]string{
		"":                                block,
		"[upstreams.a]\n":                 "[upstreams.a]\n\n" + block,
		"plan = {}\n[upstreams.a]\n":      "plan = {}\n[upstreams.a]\n\n" + block,
		"\ufeff[server] # mine\n[plan]\n": "\ufeff[server] # mine\nname_style = \"always\"\n[plan]\n",
	} {
		if got := config.PrefixNames([]byte(before)); string(got) != want {
			t.Errorf("%q: got\n%q, want\n%q", before, got, want)
		}
	}
}

func TestEditRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[upstreams.b]\n", `no server "a" in the configuration`},
		{"upstreams.a.command = \"a\"\n", "is not written as [upstreams.NAME] blocks"},
		{"upstreams = {a = {command = \"a\"}}\n", "is not written as [upstreams.NAME] blocks"},
		{"[upstreams]\na.command = \"a\"\n", `line 2: "upstreams" is not written as [upstreams.NAME] blocks`},
		{"[upstreams.a]\nenv.X = \"1\"\nupstreams = [\n", "array is incomplete"},
	} {
		_, _, removed := config.RemoveUpstream([]byte(c.text), "a")
		_, enabled := config.EnableUpstream([]byte(c.text), "a", true)
		for _, err := range []error{removed, enabled} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: got %v, want %q", c.text, err, c.want)
			}
		}
	}
	if _, err := config.EnableUpstream([]byte("[upstreams.a.tools]\ndeny = [\"x\"]\n"), "a", true); err == nil {
		t.Error("only a table in the upstream: want an error")
	}
}

// An edit changes only the blocks of its upstream, whatever other text the file has.
func TestEditsLeaveAllElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "line end")
		filler := rapid.SampledFrom([]string{"", end, "# a comment" + end, end + "# two" + end + "# lines" + end, "  # [upstreams.n1]" + end})
		var text strings.Builder
		var names []string
		for i := range rapid.IntRange(1, 4).Draw(t, "upstreams") {
			name := fmt.Sprintf("n%d", i)
			names = append(names, name)
			text.WriteString(filler.Draw(t, "before"))
			fmt.Fprintf(&text, "[upstreams.%s]%scommand = '''a%s[upstreams.n0]'''%s", name, end, end, end)
			if rapid.Bool().Draw(t, "stated") {
				text.WriteString("enabled=false  # so far" + end)
			}
			text.WriteString(filler.Draw(t, "within"))
			if rapid.Bool().Draw(t, "tools") {
				fmt.Fprintf(&text, "[upstreams.%s.tools]%sdeny = [\"x\"]%s", name, end, end)
			}
			if rapid.Bool().Draw(t, "other") {
				fmt.Fprintf(&text, "[tools.\"%s/x\"]%s", name, end)
			}
		}
		before := []byte(text.String())
		name := rapid.SampledFrom(names).Draw(t, "name")

		after, err := config.EnableUpstream(before, name, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range parsed(t, after).Upstreams {
			was := slices.IndexFunc(parsed(t, before).Upstreams, func(w config.Upstream) bool { return w.Name == u.Name })
			if want := u.Name == name || parsed(t, before).Upstreams[was].Enabled; u.Enabled != want {
				t.Errorf("%s: got enabled %v, want %v", u.Name, u.Enabled, want)
			}
		}
		if undone := bytes.Replace(after, []byte("enabled = true"+end), nil, 1); !bytes.Equal(undone, before) &&
			!slices.ContainsFunc(indexes(after, "enabled=true"), func(i int) bool {
				return bytes.Equal(slices.Concat(after[:i], []byte("enabled=false"), after[i+len("enabled=true"):]), before)
			}) {
			t.Errorf("more than one line changed: got %q from %q", after, before)
		}

		after, removed, err := config.RemoveUpstream(before, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(after)+len(removed) != len(before) {
			t.Errorf("%d bytes left and %d removed, of %d", len(after), len(removed), len(before))
		}
		left := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
		var got []string
		for _, u := range parsed(t, after).Upstreams {
			got = append(got, u.Name)
		}
		if !slices.Equal(got, left) {
			t.Errorf("got the upstreams %q, want %q", got, left)
		}
		for _, tool := range []string{"n0", "n1", "n2", "n3"} {
			if header := []byte("[tools.\"" + tool); bytes.Contains(before, header) != bytes.Contains(after, header) {
				t.Errorf("the table of the tool %s was removed", tool)
			}
		}
	})
}

func parsed(t *rapid.T, text []byte) *config.Config {
	c, err := config.Default().Parse("pipeline_config.toml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func indexes(text []byte, part string) (all []int) {
	for i := range text {
		if bytes.HasPrefix(text[i:], []byte(part)) {
			all = append(all, i)
		}
	}
	return all
}

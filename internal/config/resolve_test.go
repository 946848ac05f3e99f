package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/config"
)

func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func TestExpand(t *testing.T) {
	env := lookup(map[string]string{"A": "1", "EMPTY": "", "LOOP": "${A}"})
	for _, tt := range []struct{ in, want, err string }{
		{in: "plain $A $ $$ } {", want: "plain $A $ $$ } {"},
		{in: "${A}", want: "1"},
		{in: "x${A}y${A}z", want: "x1y1z"},
		{in: "${EMPTY}", want: ""},
		{in: "${EMPTY:-d}", want: "d"},
		{in: "${NO:-d:-e}", want: "d:-e"},
		{in: "${NO:-}", want: ""},
		{in: "${A:-d}", want: "1"},
		{in: "$${A}", want: "${A}"},
		{in: "$${A}${A}", want: "${A}1"},
		{in: "$$${A}", want: "$${A}"},
		{in: "${LOOP}", want: "${A}"},
		{in: "a ${NO}", err: "environment variable NO is not set"},
		{in: "${A", err: `want ${NAME}`},
		{in: "${A-b}", err: `want ${NAME}`},
		{in: "${}", err: `want ${NAME}`},
		{in: "${é}", err: `want ${NAME}`},
	} {
		got, err := config.Expand(tt.in, env)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: got %q, %v; want %q, %q", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	secrets := "\ufeff# comment\n\nFROM_FILE=f1\nexport  QUOTED = \"a b\"\r\nBOTH='file'\nEQ=a=b\nLITERAL=${A}\nKEY=\"-----BEGIN\nabc\"d \n-----END\"\nNOTED=\"n\" # a \"note\"\nAFTER='a' #'\n" +
		"CLOSE=\"x\"#c\nNEXT='y'#'c\nLINES=\"1\n2\" # \"\nMORE=\"x\"y\nLAST=\"z\"\n" +
		"BARE= x y # a # b\nTABBED=x\t#c\r\nNONE= # c\nHASH=#x#y\nMARK=\" #x\"\nOPEN=\"\nEND=last"
	if err := os.WriteFile(filepath.Join(dir, "secrets.env"), []byte(secrets), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Default().Parse(filepath.Join(dir, "c.toml"), []byte(`
[upstreams.relative]
command = "./bin/${NAME}"
args = ["--token=${FROM_FILE}", "$${NAME}"]
cwd = "src"
env_file = "${NAME}s.env"
env = { BOTH = "table", T = "${BOTH}" }
[upstreams.bare]
command = "server"
[upstreams.absolute]
command = "${HOME}/bin/x"
cwd = "${HOME}"
[upstreams.remote]
url = "https://${HOST}/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }
`))
	if err != nil {
		t.Fatal(err)
	}
	env := lookup(map[string]string{"NAME": "secret", "HOME": "/home/u", "HOST": "h.example:1", "TOKEN": "t", "FROM_FILE": "environment", "BOTH": "environment"})
	want := []config.Upstream{
		{Name: "relative", Command: filepath.Join(dir, "bin/secret"), Args: []string{"--token=f1", "${NAME}"}, Cwd: filepath.Join(dir, "src"),
			Env: config.Secrets{"FROM_FILE": "f1", "QUOTED": "a b", "BOTH": "table", "EQ": "a=b", "LITERAL": "${A}", "KEY": "-----BEGIN\nabc\"d \n-----END", "NOTED": "n", "AFTER": "a", "OPEN": "\"", "END": "last", "T": "file",
				"CLOSE": "x", "NEXT": "y", "LINES": "1\n2", "MORE": `"x"y`, "LAST": "z",
				"BARE": "x y", "TABBED": "x", "NONE": "", "HASH": "#x#y", "MARK": " #x"},
			Headers: config.Secrets{}},
		{Name: "bare", Command: "server", Env: config.Secrets{}, Headers: config.Secrets{}},
		{Name: "absolute", Command: "/home/u/bin/x", Cwd: "/home/u", Env: config.Secrets{}, Headers: config.Secrets{}},
		{Name: "remote", URL: "https://h.example:1/mcp", Env: config.Secrets{}, Headers: config.Secrets{"Authorization": "Bearer t"}},
	}
	for i, u := range c.Upstreams {
		got, err := u.Resolve(env)
		if err != nil {
			t.Fatal(err)
		}
		got = config.Upstream{Name: got.Name, Command: got.Command, Args: got.Args, Cwd: got.Cwd, Env: got.Env, URL: got.URL, Headers: got.Headers}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", u.Name, diff)
		}
	}
}

func TestUpstreamIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b", "ab"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		folders []string
		dir     string
		want    bool
	}{
		{nil, "", true}, {nil, dir, true},
		{[]string{dir + "/a"}, dir + "/a", true}, {[]string{dir + "/a"}, dir + "/a/b", true}, {[]string{"x", "./a/"}, dir + "/link/b", true},
		{[]string{dir + "/a"}, dir + "/ab", false}, {[]string{dir + "/a"}, dir, false}, {[]string{dir + "/a"}, "", false}, {[]string{"/"}, dir, true},
	} {
		if got := (config.Upstream{Dir: dir, Folders: tt.folders}).In(tt.dir); got != tt.want {
			t.Errorf("%q of %q: got %v", tt.dir, tt.folders, got)
		}
	}
}

func TestResolveSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.env"), []byte("A=1\nsecret value\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Default().Parse(filepath.Join(dir, "c.toml"), []byte(`
[upstreams.a]
command = "x"
args = ["ok", "${NO_ARG}"]
env = { TOKEN = "${NO_TOKEN}" }
[upstreams.b]
command = "x"
env_file = "none.env"
env = { A = "${FROM_THERE}" }
[upstreams.c]
command = "x"
env_file = "bad.env"
[upstreams.d]
url = "${SECRET}"
[upstreams.e]
command = "${EMPTY}"
`))
	if err != nil {
		t.Fatal(err)
	}
	env := lookup(map[string]string{"SECRET": "s3cret://x", "EMPTY": ""})
	for i, want := range []string{
		"upstreams.a.args[1]: environment variable NO_ARG is not set\nupstreams.a.env.TOKEN: environment variable NO_TOKEN is not set",
		"upstreams.b.env_file: open " + filepath.Join(dir, "none.env") + ": no such file or directory",
		"upstreams.c.env_file: " + filepath.Join(dir, "bad.env") + ":2: want NAME=value",
		`upstreams.d.url: want an http or https url, have the scheme "s3cret"`,
		"upstreams.e.command: empty after its variables are expanded",
	} {
		got, err := c.Upstreams[i].Resolve(env)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", c.Upstreams[i].Name, err, want)
		}
		if diff := cmp.Diff(config.Upstream{}, got); diff != "" {
			t.Errorf("%s: got a result in addition to the error:\n%s", c.Upstreams[i].Name, diff)
		}
	}
}

// TestProblemsHoldNoSecrets: problems go into the log and to clients.
func TestProblemsHoldNoSecrets(t *testing.T) {
	for _, key := range []string{`command = "npx x --token s3cret"`, `command = "~/x --token s3cret"`, `args = "s3cret"`, `env = "TOKEN=s3cret"`, `headers = "Authorization: s3cret"`, `env = { TOKEN = s3cret }`} {
		if got := findings("f.toml", []byte("[upstreams.a]\n"+key)); got == "" || strings.Contains(got, "s3cret") {
			t.Errorf("%s: got %q", key, got)
		}
	}
}

// TestSecretsStayUnprinted formats and encodes values in every way that logs do.
func TestSecretsStayUnprinted(t *testing.T) {
	c := parse(t, "[upstreams.a]\ncommand = \"x\"\nargs = [\"${T}\"]\nenv = { TOKEN = \"s3cret\" }\n[upstreams.b]\nurl = \"https://x.example/?${T}\"\nheaders = { TOKEN = \"s3cret\" }")
	var log bytes.Buffer
	text, jsonLog := slog.New(slog.NewTextHandler(&log, nil)), slog.New(slog.NewJSONHandler(&log, nil))
	for _, u := range c.Upstreams {
		r, err := u.Resolve(lookup(map[string]string{"T": "s3cret"}))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []any{u, &u, r, &r, c, u.Env, r.Env, []config.Upstream{r}, map[string]any{"r": r}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&log, verb+"\n", v)
			}
			text.Info("x", "v", v)
			jsonLog.Info("x", "v", v)
			if err := json.NewEncoder(&log).Encode(v); err != nil {
				t.Error(err)
			}
		}
	}
	for _, secret := range []string{"s3cret", fmt.Sprintf("%x", "s3cret")} {
		if i := strings.Index(log.String(), secret); i >= 0 {
			t.Errorf("the secret is in the log: …%s", log.String()[max(0, i-100):i+10])
		}
	}
	if !strings.Contains(log.String(), "TOKEN") {
		t.Error("the names of secrets are not in the log")
	}
}

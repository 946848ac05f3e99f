package clients_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
)

const (
	lettersAndDigits = "abcdefghijkmnpqrstuvwxyzABCDEFGHIJKLMNPQRSTUVWXYZ0123456789"
	printable        = lettersAndDigits + ` !"#$%&'()*+,-./:;<=>?@[\]^_{|}~` + "`"
)

func letters(alphabet string, least, most int) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte(alphabet)), least, most), func(b []byte) string { return string(b) })
}

// random draws a token of letters and digits.
func random(least, most int) *rapid.Generator[string] {
	return rapid.Map(letters(lettersAndDigits, least, most), func(s string) string { return "a7" + s + "Z3" })
}

// shaped draws secrets that are recognised by their form.
var shaped = rapid.OneOf(
	rapid.Map(letters(lettersAndDigits, 36, 36), func(s string) string { return "ghp_" + s }),
	rapid.Map(letters(lettersAndDigits, 40, 60), func(s string) string { return "sk-ant-api03-" + s }),
	rapid.Map(letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16, 16), func(s string) string { return "AKIA" + s }),
	rapid.Map(letters(lettersAndDigits, 24, 24), func(s string) string { return "xoxb-123456789012-1234567890123-" + s }),
)

// planted is a secret, and an entry that contains it.
type planted struct{ secret, entry string }

// telling draws names of secrets, as variables, headers, options and members have them.
var telling = rapid.SampledFrom([]string{"API_KEY", "token", "GITHUB_PAT", "x-api-key", "dbPassword", "AUTH", "MY_SECRET_2", "accessToken", "OPENAI_APIKEY", "Cookie", "client-secret", "PGPASSWORD", "SESSION"})

func quote(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func command(args ...string) string {
	out, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return `{"command": "x", "args": ` + string(out) + `}`
}

// plant draws an entry with a secret.
func plant(t *rapid.T) planted {
	word := telling.Draw(t, "word")
	password := rapid.Map(letters(printable, 6, 30), func(s string) string { return "Qx7" + s }).Draw(t, "password")
	key := random(8, 40).Draw(t, "key")
	long := random(24, 60).Draw(t, "long")
	shape := shaped.Draw(t, "shape")
	around := rapid.SampledFrom([]string{"", "v=", "see ", "https://h/", "${A}", "${env:B} ", "$"}).Draw(t, "around")
	entries := []planted{
		{password, `{"command": "x", "env": {` + quote(word) + `: ` + quote(password) + `}}`},
		{password, `{"url": "https://h/", "headers": {` + quote(word) + `: ` + quote(password) + `}}`},
		{password, `{"url": "https://h/", "headers": {"Authorization": ` + quote("Bearer "+password) + `}}`},
		{password, command("--"+word, password)},
		{password, command("--" + word + "=" + password)},
		{password, command("-e", word+"="+password)},
		{password, command("--header", word+": "+password)},
		{key, command("-c", `{"a": 1, "`+word+`": "`+key+`", "b": 2}`)},
		{key, command("-c", "serve --"+word+" "+key+" -v")},
		{key, command("-c", "A=1 "+word+"="+key+" serve")},
		{key, `{"url": ` + quote("https://h/mcp?a=1&"+word+"="+key+"&b=2") + `}`},
		{key, `{"url": ` + quote("https://bob:"+key+"@h/mcp") + `}`},
		{key, command("postgres://bob:" + key + "@h:5432/db")},
		{long, `{"url": ` + quote("https://h/s/"+long+"/mcp") + `}`},
		{long, `{"command": "x", "env": {"HOOK": ` + quote("https://h/services/"+long) + `, "PLAIN": ` + quote(long) + `}}`},
		{key, `{"command": "x", "env": {"A": ` + quote("${"+strings.ReplaceAll(word, "-", "_")+":-"+key+"}") + `}}`},
		{shape, command(around + shape)},
		{shape, `{"command": "x", "env": {"A": ` + quote(around+shape+" z") + `}}`},
		{shape, `{"command": ` + quote("/opt/"+around+shape) + `, "cwd": ` + quote("/srv/"+shape) + `, "envFile": ` + quote(shape) + `}`},
		{shape, `{"command": "x", ` + quote(shape) + `: 1, "env": {` + quote(shape) + `: "1"}}`},
		{password, `{"command": "x", "oauth": {"clientSecret": ` + quote(password) + `}}`},
		{password, `{"command": ["x", ` + quote(password) + `], "args": {"token": ` + quote(password) + `}, "type": ` + quote(password) + `}`},
	}
	return rapid.SampledFrom(entries).Draw(t, "entry")
}

// TestSecretsStay: no part of a secret is in the configuration or the output of an import.
func TestSecretsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var secrets, entries []string
		for i := range rapid.IntRange(1, 4).Draw(t, "servers") {
			p := plant(t)
			secrets = append(secrets, p.secret)
			entries = append(entries, fmt.Sprintf(`"s%d": %s`, i, p.entry))
		}
		file := `{"mcpServers": {` + strings.Join(entries, ",\n") + `}}`
		out := everything(t, file)
		for _, secret := range secrets {
			const window = 6
			for i := 0; i+window <= len(secret); i++ {
				part := secret[i : i+window]
				if strings.ContainsAny(part, lettersAndDigits) && strings.Contains(out, part) && !strings.Contains(strings.ReplaceAll(file, secret, ""), part) {
					t.Fatalf("%q of %q came out of\n%s\n%s", part, secret, file, out)
				}
			}
		}
	})
}

// everything returns the configuration and the output of an import.
func everything(t *rapid.T, file string) string {
	r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}})
	if err := r.Read("/home/ann/.cursor/mcp.json", []byte(file)); err != nil {
		t.Fatal(err)
	}
	text := clients.TOML(r.Servers())
	if _, err := config.Default().Parse("/x/pipeline_config.toml", text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var all strings.Builder
	all.Write(text)
	for _, s := range r.Servers() { // output about the server
		all.WriteString(s.Called + s.Stays + strings.Join(r.Advice(s), ""))
	}
	for _, n := range r.Notes() {
		all.WriteString(n)
	}
	return all.String()
}

var (
	reference = regexp.MustCompile(`\$\{[^}]*\}`)
	variable  = regexp.MustCompile(`^\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}$`)
)

// TestTheRestIsAsItWas: with the right values for its variables, an imported argument equals the
// original, and the rest of the argument is unchanged.
func TestTheRestIsAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"$", "$$", "{", "}", "${", "${A}", "${env:B}", "${C:-d}", "${}", "${a b}", " ", "=", "--key=", "token: ", "Bearer ", "https://h/", "bob:x@", "\n", "é", "\\", `"`, "-", "/"}),
			letters(printable, 0, 8), shaped,
		), 0, 8).Draw(t, "parts")
		was := strings.Join(parts, "")
		r := newReader(clients.Options{})
		if err := r.Read("/f.json", []byte(`{"mcpServers": {"s": `+command(was)+`}}`)); err != nil {
			t.Fatal(err)
		}
		got := r.Servers()[0]
		c, err := config.Default().Parse("/x.toml", clients.TOML([]clients.Server{got}))
		if err != nil {
			t.Fatal(err)
		}
		c.Upstreams[0].EnvFile = ""
		// The argument as the client would expand it, and as mcpschedd expands it, with marks for values.
		const mark = "\x01"
		resolved, err := c.Upstreams[0].Resolve(func(name string) (string, bool) {
			if name == "DOLLAR" {
				return "", false
			}
			for _, v := range got.Variables.Values {
				if v.Name == name {
					return v.Value, true
				}
			}
			return mark, true
		})
		if err != nil {
			t.Fatalf("%v: %q of %q", err, got.Block.Args, was)
		}
		filled := reference.ReplaceAllStringFunc(was, func(s string) string {
			if variable.MatchString(s) {
				return mark
			}
			return s
		})
		if resolved.Args[0] != filled && len(got.Notes) == 0 {
			t.Fatalf("got %q of %q: %q, want %q", got.Block.Args[0], was, resolved.Args[0], filled)
		}
	})
}

// TestVariablesReadAsWritten: a file of variables that an import writes is read as the same values.
func TestVariablesReadAsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.env")
	rapid.Check(t, func(t *rapid.T) {
		was := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{`"`, "'", "#", " ", "\n", "\r", "\t", "a"}), 0, 12).Draw(t, "parts"), "")
		r := newReader(clients.Options{})
		if err := r.Read("/f.json", []byte(`{"mcpServers": {"s": {"command": "x", "env": {"A_TOKEN": `+quote("s3cret"+was)+`, "B_TOKEN": "s3cret\"#'"}}}}`)); err != nil {
			t.Fatal(err)
		}
		s := r.Servers()[0]
		if s.Stays != "" {
			return // the file cannot represent the value
		}
		if err := os.WriteFile(path, s.VariablesText(), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.Upstream{Command: "x", EnvFile: path}.Resolve(func(string) (string, bool) { return "", false })
		if want := (config.Secrets{"A_TOKEN": "s3cret" + was, "B_TOKEN": "s3cret\"#'"}); err != nil || !maps.Equal(got.Env, want) {
			t.Fatalf("got %#v (%v), want %#v of\n%s", map[string]string(got.Env), err, map[string]string(want), s.VariablesText())
		}
	})
}

package secret_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/secret"
)

func TestMasker(t *testing.T) {
	m := secret.NewMasker("correct horse", "postgres://bob:staple-3@db/x", "1234567", "longer than correct horse", "first line\n  second line\nthird", "a/b+c=d&e", `say "no&"yes`, "test1234test", "o'clock/(7)", `it's "x/y"`, "horse-radish9", "pass 😀 é word")
	for name, test := range map[string]struct{ text, want string }{
		"as it is":                 {"a correct horse b", "a [secret: configured] b"},
		"one within the other":     {"longer than correct horse", "[secret: configured]"},
		"one over the end":         {"longer than correct horse correct hors", "[secret: configured] correct hors"},
		"side by side":             {"correct horsecorrect horse", "[secret: configured][secret: configured]"},
		"a password of a URL":      {"staple-3?", "[secret: configured]?"},
		"too short to be told":     {"1234567", "1234567"},
		"a line":                   {"x second line", "x [secret: configured]"},
		"a short line":             {"x third", "x third"},
		"percent":                  {"?a=correct%20horse&b=correct+horse", "?a=[secret: configured]&b=[secret: configured]"},
		"escaped":                  {`x "say \"no\u0026\"yes"`, `x "[secret: configured]"`},
		"escaped in an escape":     {`"{\"a\":\"say \\\"no&\\\"yes\"}"`, `"{\"a\":\"[secret: configured]\"}"`},
		"percent, twice":           {"?next=%2Fx%3Fkey%3Da%252Fb%252Bc%253Dd%2526e", "?next=%2Fx%3Fkey%3D[secret: configured]"},
		"a page of HTML":           {"<p>token a/b+c=d&amp;e", "<p>token [secret: configured]"},
		"ampersands":               {"a & b &; &nosuch; c&", "a & b &; &nosuch; c&"},
		"encodeURIComponent":       {"k=o'clock%2F(7)", "k=[secret: configured]"},
		"Python's quote":           {"k=o%27clock/%287%29", "k=[secret: configured]"},
		"escaped by PHP":           {`"o'clock\/(7)"`, `"[secret: configured]"`},
		"ASCII in JSON":            {`"pass \ud83d\ude00 \u00e9 word"`, `"[secret: configured]"`},
		"ASCII by Go":              {`"pass \U0001f600 \u00e9 word"`, `"[secret: configured]"`},
		"ASCII by Python":          {`'pass \U0001f600 \xe9 word'`, `'[secret: configured]'`},
		"HTML by Go":               {"it&#39;s &#34;x/y&#34;", "[secret: configured]"},
		"HTML by Python":           {"it&#x27;s &quot;x/y&quot;", "[secret: configured]"},
		"HTML by PHP":              {"it&#039;s &quot;x/y&quot;", "[secret: configured]"},
		"HTML by a browser":        {"it's &quot;x/y&quot;", "[secret: configured]"},
		"HTML by JavaScript":       {"it&#39;s &quot;x/y&quot;", "[secret: configured]"},
		"base64":                   {"Y29ycmVjdCBob3JzZQ==", "[secret: configured]Q=="},
		"what looks like a secret": {"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[secret: github-token]"},
		"broken escapes":           {`%4 \u12 \x4 \`, `%4 \u12 \x4 \`},
		"nothing":                  {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := m.Text(test.text); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	for text, want := range map[string]string{
		"a correct hor":        "a [secret: configured]",
		"a cor":                "a cor",
		"correct horse":        "[secret: configured]",
		"a test1234test":       "a [secret: configured]",
		"a test1234test1234te": "a [secret: configured]",
	} {
		if got := m.Unfinished(text); got != want {
			t.Errorf("unfinished %q: got %q, want %q", text, got, want)
		}
	}
	long := strings.Repeat("word ", 818) + "correct horse" // the end of what is read cuts it
	if got := m.Head([]byte(long), 5000); strings.Contains(got, "correct") || !strings.HasSuffix(got, "word [secret: configured]") {
		t.Errorf("head: got %q", got)
	}
	if got := m.Head([]byte("a\n b  correct horse"), 10); got != "a b [se…" {
		t.Errorf("head: got %q", got)
	}
	var none *secret.Masker
	if got := none.Text("correct horse, Bearer abcdefgh12345678"); got != "correct horse, Bearer [secret: bearer]" {
		t.Errorf("without values: got %q", got)
	}
}

func TestMaskedError(t *testing.T) {
	m := secret.NewMasker("correct horse")
	err := fmt.Errorf("login correct horse: %w", io.ErrUnexpectedEOF)
	got := m.Error(err)
	if got.Error() != "login [secret: configured]: unexpected EOF" || !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", got)
	}
	if m.Error(io.EOF) != io.EOF || m.Error(nil) != nil {
		t.Error("an error without secrets was replaced")
	}
}

func TestMaskedLog(t *testing.T) {
	var out bytes.Buffer
	m := secret.NewMasker("correct horse")
	log := slog.New(m.Handler(slog.NewTextHandler(&out, nil))).With("with", "correct horse").WithGroup("g")
	log.Info("said", "text", "a correct horse", "err", errors.New("correct horse"), "lines", []string{"x", "correct horse"},
		"n", 12, slog.Group("in", "text", "correct horse"), "value", slog.AnyValue(stringer{}))
	if got := out.String(); strings.Contains(got, "correct horse") || strings.Count(got, "[secret: configured]") != 6 || !strings.Contains(got, "g.n=12") {
		t.Errorf("got %s", got)
	}
}

type stringer struct{}

func (stringer) String() string { return "correct horse" }

func TestWhereSecretsAre(t *testing.T) {
	for name, test := range map[string]struct {
		got  []string
		want []string
	}{
		"command line": {secret.In("serve --token abc123def456 --dsn mysql://root:pw123@h/d"), []string{"abc123def456", "pw123"}},
		"URL":          {secret.URL("https://bob:pw123@h/s/0e1f2a3b4c5d6e7f8a9b/mcp?key=k1%2B2#frag"), []string{"pw123", "0e1f2a3b4c5d6e7f8a9b", "key=k1%2B2", "k1+2", "frag"}},
		"user only":    {secret.URL("https://tok123@h/"), []string{"tok123"}},
		"bearer":       {secret.Header("Bearer tok"), []string{"Bearer tok", "tok"}},
		"basic":        {secret.Header("Basic Ym9iOmh1bnRlcjI="), []string{"Ym9iOmh1bnRlcjI=", "bob:hunter2", "hunter2"}},
	} {
		for _, want := range test.want {
			if !slices.Contains(test.got, want) {
				t.Errorf("%s: got %q, want %q in it", name, test.got, want)
			}
		}
	}
	if !secret.Named("GITHUB_TOKEN", "abc123") || secret.Named("HOME", "/home/bob") || secret.Named("PWD", "/home/bob") {
		t.Error("the name of a variable was not recognised")
	}
}

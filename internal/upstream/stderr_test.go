package upstream

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/secret"
)

// key returns text in the form of a private key.
func key(lines int) string {
	return "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat(strings.Repeat("MIIEvQ+/", 8)+"\n", lines) + "Ab3=\n-----END RSA PRIVATE KEY-----\n"
}

func TestTail(t *testing.T) {
	var many, last []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("line %d", i))
	}
	last = many[len(many)-tailLines:]
	wide := strings.Repeat("x", tailWidth)
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                          {"", nil},
		"blank lines":                      {"\n \r\n\t\nend\n\n", []string{"end"}},
		"indented, CRLF":                   {"Error\r\n  at x\r\n", []string{"Error", "  at x"}},
		"no last line end":                 {"a\nb", []string{"a", "b"}},
		"the last 50":                      {strings.Join(many, "\n") + "\n", last},
		"the last 50, one without its end": {strings.Join(many, "\n"), last},
		"wide":                             {wide + "\nb\n", []string{wide, "b"}},
		"too wide, one word":               {wide + "yyy\nb\n", []string{"…", "b"}},
		"too wide":                         {"a \"b " + wide + "\nb\n", []string{"a \"b …", "b"}},
		"too wide, no end":                 {"a " + wide + "yyy", []string{"a …"}},
		"half a token at the cut":          {wide[:tailWidth-20] + " ghp_abcdefghijklmnopqrstuvwxyz0123456789\n", []string{wide[:tailWidth-20] + " …"}},
		"half a password at the cut":       {`DSN "` + wide[:tailWidth-31] + `" postgres://bob:hunter2,hunter3@db` + "\n", []string{`DSN "` + wide[:tailWidth-31] + `" …`}},
		"tokens":                           {"login ghp_abcdefghijklmnopqrstuvwxyz0123456789\nhttps://bob:hunter2@db/x", []string{"login [secret: github-token]", "https://bob:[secret: url-password]@db/x"}},
		"a key of many lines":              {"key:\n" + key(70) + "next\n", []string{"key:", "[secret: private-key]", "next"}},
		"a key as a list of lines":         {strings.ReplaceAll(key(20), "\n", "\",\n") + "Error: no key", []string{"[secret: private-key]\",", "Error: no key"}},
		"a key without an end":             {strings.TrimSuffix(key(70), "-----END RSA PRIVATE KEY-----\n") + "Error: no key", []string{"[secret: private-key]", "Error: no key"}},
		"a key behind a log's prefix":      {strings.ReplaceAll("\n"+key(3), "\n", "\n[db] 12:01 INFO ") + "x", []string{"[db] 12:01 INFO [secret: private-key]", "[db] 12:01 INFO x"}},
		"no UTF-8":                         {"a\xffb\n", []string{"a\uFFFDb"}},
		"half a rune":                      {"a \xc3", []string{"a \uFFFD"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var whole, bytewise tail
			io.Copy(&whole, strings.NewReader(test.text))
			if diff := cmp.Diff(test.want, whole.list()); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			io.Copy(&bytewise, iotest.OneByteReader(strings.NewReader(test.text)))
			if diff := cmp.Diff(test.want, bytewise.list()); diff != "" {
				t.Errorf("read byte by byte: want -, got +:\n%s", diff)
			}
		})
	}
}

// No known secret is in the lines, whatever a process writes, and in whatever pieces it is read.
func TestTailKeepsNoSecret(t *testing.T) {
	digit := rapid.SampledFrom([]rune("0123456789"))
	// Without brackets: a mark next to other text may be masked in more than one way.
	letter := rapid.SampledFrom([]rune("abcXYZ019 +/=%&\"'\\:@-_.,;é€😀\t<>"))
	value := rapid.Custom(func(t *rapid.T) string {
		runes := append(rapid.SliceOfN(letter, 7, 40).Draw(t, "runes"), digit.Draw(t, "digit"))
		return strings.TrimSpace("x" + string(runes))
	})
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(value, 1, 4).Draw(t, "values")
		mask := secret.NewMasker(values...)
		var text strings.Builder
		for range rapid.IntRange(1, 12).Draw(t, "lines") {
			for range rapid.IntRange(0, 4).Draw(t, "words") {
				forms := mcptest.Written(rapid.SampledFrom(values).Draw(t, "value"))
				text.WriteString(rapid.StringMatching(`[a-z0-9 :=%+\\"]{0,300}`).Draw(t, "around") + " ")
				text.WriteString(rapid.SampledFrom(forms).Draw(t, "written") + " ")
			}
			text.WriteString(rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "end"))
		}
		got := tail{mask: mask}
		for rest := []byte(text.String()); len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 200)).Draw(t, "read")
			got.Write(rest[:n])
			rest = rest[n:]
		}
		for _, line := range got.list() {
			for _, value := range values {
				for i, form := range mcptest.Written(value) {
					if strings.Contains(line, form) {
						t.Fatalf("%q as %d, %q, in %q", value, i, form, line)
					}
				}
			}
		}
	})
}

// The argument after a secret option is masked, even if a shell would split it.
func TestArgumentsAreMasked(t *testing.T) {
	spec := Spec{Command: Command{Args: []string{"serve", "--password", "a=b1;c&d<e>f", "--root", "/srv/data"}}}
	got := spec.masker().Text("cannot sign in with a=b1;c&d<e>f at /srv/data")
	if strings.Contains(got, "c&d<e") || !strings.Contains(got, "/srv/data") {
		t.Errorf("got %q", got)
	}
}

package secret_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"mcpschedd/internal/secret"
)

// seeds are texts that several rules match.
var seeds = []string{
	`{"password":"hunter2","n":[1,{"token":"abc12345"}],"pin":1234}`,
	`{"name":"API_TOKEN","value":"abc ghp_abcdefghijklmnopqrstuvwxyz0123456789"}`,
	`{"args":["--password","x","-H","Authorization: Bearer abc123abc123"]}`,
	`{"secret":{"a":"$AKIAABCDEFGHIJKLMNOP","b":["[secret: key]","[secret: nonsense]"]}}`,
	"https://bob:hunter2@host/?token=abc123456789&sig=a%2Bb",
	"https://ghp_abcdefghijklmnopqrstuvwxyz0123456789:x@host",
	"AKIAABCDEFGHIJKLMNOPAKIAABCDEFGHIJKLMNOP",
	"ghp_abcdefghijklmnopqrstuvwxyz.ghp_abcdefghijklmnopqrstuvwxyz",
	"token=abc/ghp_abcdefghijklmnopqrstuvwxyz0123456789).",
	"password: [secret: password]) password=\"a ghp_abcdefghijklmnopqrstuvwxyz b\"",
	"-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----x -----BEGIN PRIVATE KEY-----\nabc",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_def-123",
	"Basic Ym9iOmh1bnRlcjI= bearer abcdefgh12345678==",
	"a.password = \\\"x\\\\\"y\\\" <password>a b</password> --api-key k3y",
	"cookie: a=b; c=ghp_abcdefghijklmnopqrstuvwxyz",
	"authorization: token sk-abcdefghij0123456789 \nnext",
	"\"secret\":\"://a:b@c\"",
	"mysql --password=\"a;b\" -phunter2 && curl -u bob:hunter2 -H 'X-Token: abc'",
	`{"args":["-p","x1","-u","a:b"],"command":"sshpass"}`,
	"AKIAABCDEFGHIJKLMNOP:wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ2k9LmPq",
	"abc8Q~AbCdEfGhIjKlMnOpQrStUvWxYz01234567 aBcDeFgHiJkLmN.atlasv1.AbCdEfGhIjKlMnOpQrStUvWxYz01234567AbCdEfGh",
	"aws set some_secret_key abc12345 <token>abc</token>",
}

func FuzzText(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := secret.Text(s)
		if utf8.ValidString(s) && !utf8.ValidString(once) {
			t.Errorf("%q became %q, which is not UTF-8", s, once)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		given := bytes.Clone(object)
		once := secret.JSON(object)
		if !bytes.Equal(given, object) {
			t.Fatalf("%q was changed", given)
		}
		if !json.Valid(once) {
			t.Fatalf("%q became %q, which is no JSON", object, once)
		}
		if json.Valid(object) && utf8.Valid(object) && shape(t, object) != shape(t, once) {
			t.Errorf("%q became %q, of another shape", object, once)
		}
	})
}

// shape returns a JSON value without the content of its strings, and without numbers that were
// masked.
func shape(t *testing.T, value []byte) string {
	var out strings.Builder
	for dec := json.NewDecoder(bytes.NewReader(value)); ; {
		token, err := dec.Token()
		if err != nil {
			return out.String()
		}
		switch token := token.(type) {
		case json.Delim:
			out.WriteString(token.String())
		case bool:
			out.WriteString("b ")
		case nil:
			out.WriteString("n ")
		default:
			out.WriteString("s ")
		}
	}
}

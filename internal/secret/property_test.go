package secret_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/secret"
)

// fragments are what texts are put together from, so that rules meet in ways that
// no random bytes would bring about.
var fragments = append([]string{
	"password", "token", "Authorization", "api_key", "cookie", "pin", "--password", "<secret>", "</secret>", "name", "value",
	"=", ":", ": ", " = ", " ", "\n", "\"", "'", "\\\"", "\\", "`", ",", ";", "&", "/", "@", "://", ".", "[", "]", "(", ")", "{", "}", "<", "$", "${", "====",
	"hunter2", "x", "12345678", "Bearer ", "Basic ", "Ym9iOmh1bnRlcjI=", "eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxMjM0In0", "AKIAABCDEFGHIJKLMNOP",
	"ghp_abcdefghijklmnopqrstuvwxyz0123456789", "sk-abcdefghij0123456789", "AA", "AAabcdefghijklmnopqrstuvwxyz0123456", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----",
	"sshpass", "mysql", "curl", " -p", " -p ", " -u ", " -u", "-a", "bob:hunter2", "--user=", "X-Token: abc", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ2k9LmPq", "[secret: aws-key]",
	"abc8Q~", "AbCdEfGhIjKlMnOpQrStUvWxYz01234567", "aBcDeFgHiJkLmN", ".atlasv1.", "ZXlKaGJHY2lPaUpJVXpJMU5pSjkuZXlKemRXSWlPaUl4", "some_secret ", "|", "aws",
	"[secret: password]", "[secret: token", "[secret: nothing]", "[secret: ", "é", "\u2028",
}, seeds...)

func text(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 14).Draw(t, "fragments"), "")
}

func TestTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := text(t)
		once := secret.Text(s)
		if twice := secret.Text(once); twice != once {
			t.Errorf("%q became\n%q, and that\n%q", s, once, twice)
		}
	})
}

// value writes a JSON value: names and texts that say something of each other.
func value(t *rapid.T, depth int) string {
	quoted := func() string { return string(marshal(text(t))) }
	switch rapid.IntRange(0, 1+3*min(max(depth, 0), 1)).Draw(t, "kind") {
	case 0:
		return quoted()
	case 1:
		return rapid.SampledFrom([]string{`"sshpass"`, `"-p"`, `"-phunter2"`, `"-u"`, `"bob:hunter2"`, `"AKIAABCDEFGHIJKLMNOP"`, `"\u0041KIAABCDEFGHIJKLMNOP"`, "null", "true", "12", "123456", "-1.5e3"}).Draw(t, "literal")
	case 2:
		var all []string
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			all = append(all, value(t, depth-1))
		}
		return "[" + strings.Join(all, " ,\n") + " ]"
	}
	var all []string
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		name := string(marshal(rapid.SampledFrom([]string{"password", "name", "value", "element", "text", "credentials", "token", "pin", "id", "a", "args", "command", "auth", "tokens", "key", "signerKey"}).Draw(t, "name")))
		if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			name = quoted()
		}
		all = append(all, name+" : "+value(t, depth-1))
	}
	return "{" + strings.Join(all, ",") + "\t}"
}

func TestJSONTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := value(t, 3)
		once := string(secret.JSON([]byte(v)))
		if twice := string(secret.JSON([]byte(once))); twice != once {
			t.Errorf("%s became\n%s, and that\n%s", v, once, twice)
		}
	})
}

package secret_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"mcpschedd/internal/secret"
)

const (
	digits    = "0123456789"
	capits    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowerCase = "abcdefghijklmnopqrstuvwxyz"
	base62    = digits + capits + lowerCase
)

func random(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }

func draw(r *rand.Rand, from string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[r.IntN(len(from))]
	}
	return string(b)
}

// checked adds the checksum in tokens of GitHub and npm: the CRC-32 of the text after the prefix,
// as six digits to the base of 62.
func checked(prefix, body string) string {
	sum, out := crc32.ChecksumIEEE([]byte(body)), ""
	for range 6 {
		out = string(base62[sum%62]) + out
		sum /= 62
	}
	return prefix + body + out
}

func github(seed int) string { return checked("ghp_", draw(random(seed), base62, 30)) }

func jwt(seed int) string {
	r := random(seed)
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(marshalAny(v)) }
	return part(map[string]string{"alg": "HS256", "typ": "JWT"}) + "." +
		part(map[string]any{"sub": draw(r, digits, 10), "iat": r.IntN(1e9)}) + "." + draw(r, base62+"-_", 43)
}

// awsSecret draws the secret part of an AWS key.
func awsSecret(r *rand.Rand) string {
	return draw(r, lowerCase, 2) + draw(r, base62+"+/", 36) + draw(r, capits, 2)
}

func marshalAny(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// made are secrets in the formats of their services, which were never issued. If only a part is
// secret, << and >> enclose it.
var made = []struct {
	name string
	make func(*rand.Rand) string
}{
	{"aws access key id", func(r *rand.Rand) string { return "AKIA" + draw(r, capits+"234567", 16) }},
	{"aws session key id", func(r *rand.Rand) string { return "ASIA" + draw(r, capits+"234567", 16) }},
	{"github personal", func(r *rand.Rand) string { return checked("ghp_", draw(r, base62, 30)) }},
	{"github oauth", func(r *rand.Rand) string { return checked("gho_", draw(r, base62, 30)) }},
	{"github app", func(r *rand.Rand) string { return checked("ghs_", draw(r, base62, 30)) }},
	{"github fine-grained", func(r *rand.Rand) string { return "github_pat_" + draw(r, base62, 22) + "_" + draw(r, base62, 59) }},
	{"gitlab personal", func(r *rand.Rand) string { return "glpat-" + draw(r, base62+"-_", 20) }},
	{"gitlab routable", func(r *rand.Rand) string {
		return "glpat-" + draw(r, base62+"-_", 27) + ".01.1" + draw(r, digits+lowerCase, 8)
	}},
	{"slack bot", func(r *rand.Rand) string {
		return "xoxb-" + draw(r, digits, 12) + "-" + draw(r, digits, 13) + "-" + draw(r, base62, 24)
	}},
	{"slack app", func(r *rand.Rand) string {
		return "xapp-1-A" + draw(r, capits, 10) + "-" + draw(r, digits, 13) + "-" + draw(r, "0123456789abcdef", 64)
	}},
	{"slack webhook", func(r *rand.Rand) string {
		return "https://<<hooks.slack.com/services/T" + draw(r, capits, 8) + "/B" + draw(r, capits, 8) + "/" + draw(r, base62, 24)
	}},
	{"stripe", func(r *rand.Rand) string { return "sk_live_" + draw(r, base62, 24) }},
	{"stripe restricted", func(r *rand.Rand) string { return "rk_test_" + draw(r, base62, 99) }},
	{"google api key", func(r *rand.Rand) string { return "AIza" + draw(r, base62+"-_", 35) }},
	{"google oauth", func(r *rand.Rand) string { return "ya29.a0" + draw(r, base62+"-_", 120) }},
	{"google client", func(r *rand.Rand) string { return "GOCSPX-" + draw(r, base62+"-_", 28) }},
	{"json web token", func(r *rand.Rand) string { return jwt(r.Int()) }},
	{"private key", func(r *rand.Rand) string {
		return "-----BEGIN EC PRIVATE KEY-----\n" + draw(r, base62+"+/", 64) + "\n" + draw(r, base62, 40) + "==\n-----END EC PRIVATE KEY-----"
	}},
	{"openai", func(r *rand.Rand) string {
		return "sk-proj-" + draw(r, base62+"-_", 74) + "T3BlbkFJ" + draw(r, base62+"-_", 74)
	}},
	{"openai, old", func(r *rand.Rand) string { return "sk-" + draw(r, base62, 20) + "T3BlbkFJ" + draw(r, base62, 20) }},
	{"anthropic", func(r *rand.Rand) string { return "sk-ant-api03-" + draw(r, base62+"-_", 93) + "AA" }},
	{"hugging face", func(r *rand.Rand) string { return "hf_" + draw(r, capits+lowerCase, 34) }},
	{"npm", func(r *rand.Rand) string { return checked("npm_", draw(r, base62, 30)) }},
	{"pypi", func(r *rand.Rand) string { return "pypi-AgEIcHlwaS5vcmc" + draw(r, base62+"-_", 160) }},
	{"docker", func(r *rand.Rand) string { return "dckr_pat_" + draw(r, base62+"-_", 27) }},
	{"digitalocean", func(r *rand.Rand) string { return "dop_v1_" + draw(r, "0123456789abcdef", 64) }},
	{"sendgrid", func(r *rand.Rand) string { return "SG." + draw(r, base62+"-_", 22) + "." + draw(r, base62+"-_", 43) }},
	{"atlassian", func(r *rand.Rand) string {
		return "ATATT3xFfGF0" + draw(r, base62+"-_", 174) + "=" + draw(r, "0123456789ABCDEF", 8)
	}},
	{"notion", func(r *rand.Rand) string { return "ntn_" + draw(r, digits, 11) + draw(r, base62, 35) }},
	{"linear", func(r *rand.Rand) string { return "lin_api_" + draw(r, base62, 40) }},
	{"vault", func(r *rand.Rand) string { return "hvs." + draw(r, base62+"-_", 95) }},
	{"databricks", func(r *rand.Rand) string { return "dapi" + draw(r, "0123456789abcdef", 32) }},
	{"telegram", func(r *rand.Rand) string { return draw(r, "123456789", 10) + ":<<AA" + draw(r, base62+"-_", 33) }},
	{"shopify", func(r *rand.Rand) string { return "shpat_" + draw(r, "0123456789abcdef", 32) }},
	{"age", func(r *rand.Rand) string { return "AGE-SECRET-KEY-1" + draw(r, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58) }},
	{"bearer", func(r *rand.Rand) string { return "Bearer <<" + draw(r, base62, 40) }},
	{"basic", func(r *rand.Rand) string {
		return "Basic <<" + base64.StdEncoding.EncodeToString([]byte("bob:"+draw(r, base62, 5+r.IntN(9))))
	}},
	{"url", func(r *rand.Rand) string {
		return "mongodb+srv://bob:<<" + draw(r, base62+"!$%^-_", 12) + ">>@cluster.example/db"
	}},
	{"connection string", func(r *rand.Rand) string { return "Server=db;Uid=sa;Pwd=<<" + draw(r, base62+"!^-_", 12) + ">>;" }},
	{"sas url", func(r *rand.Rand) string {
		return "https://x.blob.core.windows.net/c?sv=2024&sig=<<" + draw(r, base62, 43) + "%3D"
	}},
	{"azure", func(r *rand.Rand) string {
		return draw(r, base62, 3) + "8Q~" + draw(r, base62+"_.~", 33) + draw(r, base62, 1)
	}},
	{"terraform", func(r *rand.Rand) string { return draw(r, base62, 14) + ".atlasv1." + draw(r, base62, 67) }},
	{"json web token, encoded", func(r *rand.Rand) string { return base64.StdEncoding.EncodeToString([]byte(jwt(r.Int()))) }},
	{"aws secret beside its id", func(r *rand.Rand) string {
		return "AKIA" + draw(r, capits+"234567", 16) + " <<" + awsSecret(r)
	}},
	{"aws session", func(r *rand.Rand) string { return "IQoJb3JpZ2luX2V" + draw(r, base62+"/+", 400) }},
	{"curl", func(r *rand.Rand) string { return "curl -u bob:<<" + draw(r, base62+"!^_", 9) + ">> h" }},
	{"mysql", func(r *rand.Rand) string { return "mysql -uroot -p<<" + draw(r, base62+"!^_", 9) + ">> db" }},
	{"sshpass", func(r *rand.Rand) string { return "sshpass -p <<" + draw(r, base62+"!^_", 9) + ">> ssh h" }},
	{"short token", func(r *rand.Rand) string { return "https://h/?token=<<" + draw(r, base62, 8) + ">>&x=1" }},
	{"assigned", func(r *rand.Rand) string { return "CLIENT_SECRET=<<" + draw(r, base62+"~._-", 40) }},
	{"quoted", func(r *rand.Rand) string { return `api_key: "<<` + draw(r, base62, 32) + `>>"` }},
}

// surroundings are formats of texts that contain a secret.
var surroundings = []string{"%s", "a %s b", "(%s)", "`%s`", "x=%s", "%s\nnext: line", "see %s, and then", `say "%s"`, "https://h/%s?x=1"}

// Every secret is masked in every text, and not even eight characters of it are left.
func TestSecretsGo(t *testing.T) {
	seen := 0
	for i, m := range made {
		t.Run(m.name, func(t *testing.T) {
			for k := range 20 {
				s := m.make(random(i*1000 + k))
				inner := s
				if _, rest, ok := strings.Cut(s, "<<"); ok {
					inner, _, _ = strings.Cut(rest, ">>")
				}
				s = strings.NewReplacer("<<", "", ">>", "").Replace(s)
				for _, around := range surroundings {
					if strings.HasPrefix(around, "https") && strings.ContainsAny(s, " :\n") {
						continue
					}
					seen++
					in := fmt.Sprintf(around, s)
					doc := marshalAny(map[string]any{"list": []any{map[string]string{"note": in}}})
					for _, out := range []string{secret.Text(in), string(secret.JSON(doc))} {
						if !strings.Contains(out, "[secret: ") || common(out, inner) >= 8 {
							t.Fatalf("%q became %q", in, out)
						}
					}
				}
			}
		})
	}
	t.Logf("%d texts with secrets of %d kinds", seen, len(made))
}

// common returns the length of the longest part of the secret that is left in text.
func common(text, secret string) int {
	most := 0
	for from := range secret {
		for n := most + 1; from+n <= len(secret) && strings.Contains(text, secret[from:from+n]); n++ {
			most = n
		}
	}
	return most
}

// harmless are typical values in arguments and answers.
var harmless = []struct {
	name string
	make func(*rand.Rand) any
}{
	{"uuid", func(r *rand.Rand) any {
		return fmt.Sprintf("%s-%s-4%s-a%s-%s", hexes(r, 8), hexes(r, 4), hexes(r, 3), hexes(r, 3), hexes(r, 12))
	}},
	{"git commit", func(r *rand.Rand) any {
		return map[string]any{"sha": hexes(r, 40), "message": "fix #" + draw(r, digits, 4)}
	}},
	{"digest", func(r *rand.Rand) any { return "sha256:" + hexes(r, 64) }},
	{"integrity", func(r *rand.Rand) any {
		sum := sha256.Sum256([]byte(draw(r, base62, 9)))
		return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	}},
	{"go.sum", func(r *rand.Rand) any { return "golang.org/x/sys v0.1.0 h1:" + draw(r, base62+"+/", 43) + "=" }},
	{"image", func(r *rand.Rand) any {
		b := make([]byte, 3000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return map[string]any{"type": "image", "mimeType": "image/png", "data": base64.StdEncoding.EncodeToString(b)}
	}},
	{"data url", func(r *rand.Rand) any { return "data:font/woff2;base64," + draw(r, base62+"+/", 900) }},
	{"path", func(r *rand.Rand) any {
		return "/home/bob/src/" + draw(r, lowerCase, 7) + "/node_modules/@types/" + draw(r, lowerCase, 9) + "/index-" + draw(r, base62, 8) + ".d.ts:" + draw(r, digits, 3)
	}},
	{"windows path", func(r *rand.Rand) any { return `C:\Users\bob\AppData\Local\Temp\` + draw(r, base62, 12) + `.tmp` }},
	{"cursor", func(r *rand.Rand) any {
		return map[string]any{"cursor": base64.StdEncoding.EncodeToString(marshalAny(map[string]any{"id": r.IntN(1e9), "after": hexes(r, 24)})), "nextPageToken": draw(r, base62, 60)}
	}},
	{"time and size", func(r *rand.Rand) any {
		return fmt.Sprintf("2026-03-%02dT10:%02d:00Z size=%d", 1+r.IntN(28), r.IntN(60), r.IntN(1e9))
	}},
	{"usage", func(r *rand.Rand) any {
		return map[string]any{"input_tokens": r.IntN(1e6), "max_tokens": "8192", "token_count": r.IntN(1e9), "tokens_per_second": 31.5, "key": "PROJ-" + draw(r, digits, 4)}
	}},
	{"etag", func(r *rand.Rand) any {
		return map[string]any{"etag": `W/"` + hexes(r, 32) + `"`, "cache_key": hexes(r, 32), "sort_key": "created", "issueKey": "PROJ-" + draw(r, digits, 4), "file_key": draw(r, base62, 22)}
	}},
	{"arn", func(r *rand.Rand) any {
		return map[string]any{"arn": "arn:aws:secretsmanager:eu-west-1:" + draw(r, digits, 12) + ":secret:prod/db-" + draw(r, base62, 6), "secret_name": "prod/db", "key_id": hexes(r, 32)}
	}},
	{"web page", func(r *rand.Rand) any {
		return "https://example.com/a/" + draw(r, lowerCase, 8) + "?utm_source=x&id=" + draw(r, digits, 12) + "&v=" + draw(r, base62, 11) + "#t=" + draw(r, digits, 3)
	}},
	{"css and markup", func(r *rand.Rand) any {
		return `<div class="sk-circle task-` + draw(r, lowerCase, 30) + `" id="re_` + draw(r, lowerCase, 8) + `" style="color:#` + hexes(r, 6) + `">` + draw(r, lowerCase, 5) + `</div>`
	}},
	{"a program", func(r *rand.Rand) any {
		return "func (s *Session) Token(ctx context.Context) (string, error) {\n\tkey := s.keys[name]\n\tif token == nil {\n\t\treturn \"\", errors.New(\"no token: sign in\")\n\t}\n\tpassword := flag.String(\"password\", \"\", \"password: of the user\")\n\tconst secretName = x." + draw(r, lowerCase, 6) + "\n\treturn token.Value, nil\n}"
	}},
	{"a form", func(r *rand.Rand) any {
		return `<input type="password" name="password" required><label>Password</label> token: string; type Credentials = { password: string; apiKey?: string }`
	}},
	{"prose", func(r *rand.Rand) any {
		return "To reset your password, open the settings. The secret of good coffee is water: use a token of it. " +
			"Authentication: basic, bearer or none. Passwords must be long; a session lasts an hour, and the key is under the mat (" + draw(r, digits, 5) + ")."
	}},
	{"documentation", func(r *rand.Rand) any {
		return "| `token` | string | The token to use. Default: `${GITHUB_TOKEN}` |\nSet `API_KEY=<your key>` or `password: \"\"` in config.yaml, see --token-file PATH. Authorization: none"
	}},
	{"sql", func(r *rand.Rand) any {
		return "SELECT id, password_hash, session_id FROM users u JOIN tokens t ON t.user_id = u.id WHERE t.token IS NOT NULL AND u.key = :key LIMIT " + draw(r, digits, 3)
	}},
	{"log", func(r *rand.Rand) any {
		return "INFO request_id=" + hexes(r, 32) + " trace=" + hexes(r, 32) + " session=none token_ttl=3600 auth=ok key=user:" + draw(r, digits, 8) + " bytes=" + draw(r, digits, 6)
	}},
}

func hexes(r *rand.Rand, n int) string { return draw(r, "0123456789abcdef", n) }

// Harmless values are not masked, except for a small share that cannot be distinguished from
// secrets.
func TestHarmlessStays(t *testing.T) {
	const most = 0.005
	seen, lost := 0, 0
	for i, h := range harmless {
		mine := 0
		for k := range 200 {
			in := string(marshalAny(map[string]any{"result": h.make(random(i*1000 + k))}))
			seen++
			if out := string(secret.JSON([]byte(in))); out != in {
				if mine++; mine <= 2 {
					at := strings.Index(out, "[secret: ")
					t.Logf("%s: …%s", h.name, out[max(0, at-60):min(len(out), at+60)])
				}
			}
		}
		if lost += mine; mine > 0 {
			t.Logf("%s: %d of 200", h.name, mine)
		}
	}
	t.Logf("%d harmless values, %d masked", seen, lost)
	if float64(lost) > most*float64(seen) {
		t.Errorf("got %d of %d masked, want %v at most", lost, seen, most)
	}
}

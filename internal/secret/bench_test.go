package secret_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/secret"
)

const large = 64 << 10

func fill(unit string) string {
	return strings.Repeat(unit, large/len(unit)+1)[:large]
}

// What a scrubber could be made to look at over and over. Each is a case of its
// own because each was a way to be quadratic.
var adversaries = map[string]string{
	"prefix":       fill("sk-"),
	"densePrefix":  fill("sk-a1b2c3"),
	"undense":      "sk-" + fill("ab-"),
	"jwt":          fill("eyJ-"),
	"jwtDots":      fill("eyJaaaaaaaaaa.eyJ."),
	"armor":        fill("-----BEGIN PRIVATE KEY-----"),
	"armorEnd":     fill("-----BEGIN PRIVATE KEY----------END "),
	"dashes":       fill("-"),
	"url":          fill("://"),
	"urlUsers":     fill("://a@"),
	"urlAt":        "://" + fill("@"),
	"assigned":     fill("token="),
	"quoted":       fill(`token="`),
	"quotedTwice":  fill(`token=\"`),
	"spaced":       fill("password        "),
	"colons":       fill("token:"),
	"options":      fill("--token "),
	"headers":      fill("cookie: "),
	"closed":       fill("token=a]]]]]]"),
	"spans":        fill("token=\"AKIAABCDEFGHIJKLMNOP "),
	"marks":        fill("[secret: "),
	"realMarks":    fill("[secret: password]"),
	"basic":        fill("basic YTph "),
	"bearer":       fill("bearer bearer"),
	"slashes":      fill(`\`),
	"slashedQuote": "token=\"" + fill(`\\\"`),
	"spaces":       fill(" "),
	"equals":       fill("="),
	"tags":         fill("<token>"),
	"secrets":      fill("password=x1 "),
	"flags":        fill("-p "),
	"flagsJoined":  fill(" -pa"),
	"flagsOfOne":   "sshpass" + fill(" -p a1"),
	"users":        fill("-u a:b "),
	"usersJoined":  fill(" -ua:b"),
	"azure":        fill("abc8Q~"),
	"atlas":        fill("abcdefgh123456.atlasv1."),
	"encoded":      fill("ZXlK+"),
	"encodedWord":  fill("ZXlKaGJHY2lPaUpJ-"),
	"beside":       "AKIAABCDEFGHIJKLMNOP" + fill(" wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ2k9LmPq"),
	"nested":       fill(`token="a:token='b:token=`),
	"names":        fill("tokenTokenTOKEN_token="),
}

func BenchmarkAdversaries(b *testing.B) {
	for name, s := range adversaries {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				secret.Text(s)
			}
		})
	}
}

// JSON that is made of what the walk has to remember.
func BenchmarkAdversariesJSON(b *testing.B) {
	for name, unit := range map[string]string{
		"pairs":   `{"name":"password","value":"x"},`,
		"options": `"--password","x1",`,
		"joined":  `"sshpass","-px1",`,
		"invoked": `{"args":["-p","x1"],"command":"sshpass"},`,
		"aws":     `"AKIAABCDEFGHIJKLMNOP","wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ2k9LmPq",`,
		"names":   `{"element":"` + strings.Repeat("password ", 40) + `"},`,
		"nested":  `{"credentials":[{"a":{"token":"abcdefgh1234"}}]},`,
	} {
		doc := []byte("[" + strings.TrimSuffix(strings.Repeat(unit, large/len(unit)), ",") + "]")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				secret.JSON(doc)
			}
		})
	}
}

// Arguments as they mostly are.
func BenchmarkArguments(b *testing.B) {
	doc := []byte(`{"owner":"acme","repo":"website","issue_number":1234,"body":"It fails since commit 3f786850e387550fdab836ed7e6dc881de23001b, see https://ci.example/job/77?page=2.","labels":["bug","ci"],"path":"src/app/main.go","ref":"refs/heads/main"}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		secret.JSON(doc)
	}
}

// An answer of 64 KiB without secrets.
func BenchmarkAnswer(b *testing.B) {
	unit := `{"sha":"3f786850e387550fdab836ed7e6dc881de23001b","message":"fix: the parser no longer reads past the end","author":{"name":"bob","date":"2026-01-02T03:04:05Z"},"url":"https://api.example/repos/a/b/commits/3f78"},`
	doc := []byte("[" + strings.TrimSuffix(strings.Repeat(unit, large/len(unit)), ",") + "]")
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		secret.JSON(doc)
	}
}

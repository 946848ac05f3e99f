package classify_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/classify"
)

// nested returns levels of a command.
func nested(levels int, open, closing string) string {
	return strings.Repeat(open, levels) + "a" + strings.Repeat(closing, levels)
}

func TestDetaches(t *testing.T) {
	for command, want := range map[string]bool{
		"make":                               false,
		"make && make test; echo done":       false,
		"make 2>&1 | tee log":                false,
		"make &> log":                        false,
		"git commit -m 'fix & improve'":      false,
		`curl "http://x/?a=1&b=2"`:           false,
		"git -C at status":                   false,
		"docker run --rm x":                  false,
		"npm run dev &":                      true,
		"npm run dev > log 2>&1 & sleep 1":   true,
		"(cd web && npm run dev &)":          true,
		"f() { npm run dev & }; f":           true,
		"bash -c 'npm run dev &'":            true,
		`sudo sh -c "npm run dev & echo $x"`: true,
		"echo $(server & echo $!)":           true,
		"nohup server":                       true,
		"sudo nohup server":                  true,
		"/usr/bin/setsid server":             true,
		"tmux new -d server":                 true,
		"docker compose up -d":               true,
		"docker run --detach x":              true,
		"docker run --detach=true x":         true,
		"docker run -dit x":                  true,
		"docker run --rm -it x":              false,
		"sudo docker compose up -d":          true,
		"A=1 docker compose up -d":           true,
		"A=1 nohup server":                   true,
		"A=$(server & echo $!)":              true,
		"coproc server":                      true,
		"if true; then":                      true, // cannot be parsed
		strings.Repeat("x", 1<<20):           true,

		"nice -n 5 sh -c 'server &'":         true,
		"doas sh -c 'server &'":              true,
		"stdbuf -o0 bash -c 'server &'":      true,
		"flock f sh -c 'server &'":           true,
		"ionice ksh -c 'server &'":           true,
		"busybox ash -c 'server &'":          true,
		"find . -exec sh -c 'server &' \\;":  true,
		"find . -exec sh -c 'a && b' \\;":    false,
		"find . -exec sed 's/(a)/b/' {} \\;": false,
		"find src -name screen -type f":      false,
		"bash <<E\nserver &\nE":              true,
		"sudo sh -s <<'E'\nserver &\nE":      true,
		"bash <<E\nmake && make test\nE":     true, // a here-document is not searched
		"sh -c 'cd x;nohup server'":          true,
		"sh -c 'cd x\nnohup server'":         true,
		"sh -c 'cd x&&nohup server'":         true,
		"sh -c 'a||nohup server'":            true,
		"sh -c 'a|nohup server'":             true,
		"bash -c '(nohup server)'":           true,
		"bash -c 'echo `nohup server`'":      true,
		"bash -c 'coproc server; a'":         true,
		"bash -c 'a||b|&c&&(d)'":             false,
		"bash -c 'a 2>&1 |& b &> c && d'":    false,
		"sudo tee x <<E\nserver &\nE":        false,

		"bash -euo pipefail <<E\nserver &\nE":        true,
		"bash -o pipefail -x <<E\nserver &\nE":       true,
		"sh +e -o nounset <<E\nserver &\nE":          true,
		"A=1 'bash' -s x <<E\nserver &\nE":           true,
		"sudo -u bob bash -es -- x <<E\nserver &\nE": true,
		"docker exec -i c bash <<E\nserver &\nE":     true,
		"{ bash; } <<E\nserver &\nE":                 true,
		"cat <<E | bash\nserver &\nE":                true,
		"bash x <<E\nserver &\nE":                    false,
		"echo sh <<E\nserver &\nE":                   false,
		"cat bash <<E\nserver &\nE":                  false,

		// Nested commands may take too long to search.
		nested(4, "sh -c $(", "; b)"):         false,
		nested(1000, "env $(", ")"):           true,
		strings.Repeat("sh -c 'a; b'\n", 500): false,
	} {
		if got := classify.Detaches(command); got != want {
			t.Errorf("%.60s: got %v, want %v", command, got, want)
		}
	}
}

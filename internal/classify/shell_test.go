package classify_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"

	"mcpschedd/internal/classify"
)

func level(line string) classify.Level { return classify.ShellLine(line).Level }

// changingCommands are commands that no line may run.
var changingCommands = []string{"", "rm", "touch", "tee", "xargs", "awk", "curl", "cd", "sh", "eval", "exec", "env", "sudo", "time", "go", "npm"}

// readingLines returns command lines that must be classified as reads. None of them changes
// anything.
func readingLines() []string {
	return []string{
		"ls", "ls -la src", "ls -la ~/src", "pwd", "cat go.mod", "cat -n 'a b.txt'", "cat src/*.go", "cat /dev/null", "ls;",
		"head -20 a.txt", "head -n 20 a.txt", "tail -n +5 a.txt", "tail -c 5 a.txt", "head -c5 a.txt", "wc -l src/*.go", "echo hello world",
		"grep -rn foo .", "grep -rn 'foo$' src", `grep -n "a\|b" a.txt`, "grep -E 'a|b' a.txt", "grep -n '`' a.txt", "grep 'a\\(b' a.txt", "grep -rn foo --include=*.go .",
		"cat a.txt | grep -e foo", "grep -e foo a.txt", "grep -rn -e foo -e bar src", "rg -n -e foo src", "command -V git", "rg --files src -g '*.go'", "grep foo a.txt /dev/null", "rg -n foo src", "rg --files", "rg -A 3 foo src -g '*.go'",
		"find . -name '*.go' -type f", "find src -maxdepth 2 -mtime -7", `find . \( -name a -o -name b \) -print`, "find . ! -name a",
		"sed -n '1,5p' a.txt", "sed -n 3p a.txt", "sed -n '$p' a.txt", "sed -n '1,2p;5q' a.txt", "stat -c %s a.txt", "file a.txt",
		"tree -L 2", "tree -aL 2 -I x src", "du -sh src", "df -h", "basename src/a.go .go", "dirname src/a.go", "realpath src", "sort a.txt", "sort -t, -k2,2nr a.txt",
		"sort a.txt | uniq -c | sort -rn | head", "cut -d: -f1 a.txt", "cat a.txt | tr a-z A-Z",
		"diff -u a.txt b.txt", "diff a.txt b.txt -u", "cat a.txt | tr a -d",
		"date", "date -u", "uname -a", "whoami", "hostname",
		"which git", "type ls", "command -v git", "true",
		"md5sum a.txt", "jq . a.json", "jq -r '.a | select(.b > 1)' a.json", "cat a.json | jq -r .a",
		"git log --oneline -5", "git log -3 | head -20", "git log --format='%h %s' -- src", "git log --stat",
		"git --no-optional-locks --no-pager log", "git --no-pager log",
		"git rev-parse HEAD", "git rev-parse --abbrev-ref HEAD", "git ls-tree HEAD", "git branch", "git branch -a",
		"git branch --show-current", "git branch --list 'x*'", "git branch --merged main", "git tag", "git tag -l 'v*'", "git remote -v", "git remote get-url origin",
		"git describe --tags", "git reflog", "git reflog show HEAD", "git config --get user.name", "git config --get user.name --global", "git config --global --list", "git config --list", "git stash list",
		"cat a.json | jq -n input", "ls 2>&1", "ls x 2>/dev/null", "ls >/dev/null 2>&1", "grep foo a > /dev/null && echo yes", "git log 2>/dev/null | head", "grep -rn foo src 2>&1 | head -5; ls 1>/dev/null", "ls src/*/a.go", "ls sr*", "cat ./src/a?.go",
	}
}

// quietLines returns command lines that must be classified as quiet: line → the folders in which the
// git configuration must name no programs.
func quietLines() map[string][]string {
	lines := map[string][]string{
		"git -C /a/b status": {"/a/b"}, "git -C src log": {"src"}, "git -C src -C ../b diff | head": {"src/../b"}, "git -C /a -C b log": {"/a/b"},
		"git log -3 && git -C /a log && git status": {"", "/a"}, "git status && git -C /a status; git -C /a diff": {"", "/a"},
	}
	for _, line := range []string{
		"git --no-optional-locks status -sb", "git show", "git show HEAD", "git show --stat", "git show --no-textconv HEAD", "git log -p",
		"git log --patch", "git log -u", "git log -U3", "git log --no-ext-diff -p", "git log -S x", "git log -Gx", "git log -L1,2:a",
		"git diff a..b", "git diff --cached", "git diff --no-textconv a..b", "git blame a", "git blame HEAD -- a", "git blame --no-ext-diff --no-textconv a", "git blame --no-ext-diff --no-textconv -- a", "git diff --no-ext-diff --no-textconv --cached",
		"git diff --staged --no-ext-diff --no-textconv -- src", "git ls-files", "git ls-files -s", "git show --no-ext-diff --no-textconv :a.txt", "git cat-file -p :a.txt", "git cat-file -p HEAD:a.txt", "git cat-file blob HEAD:a.txt", "git cat-file -t HEAD", "git cat-file HEAD -t", "git rev-parse :2:a.txt", "git log HEAD..:a.txt", "git log -- ':(attr:x)a.txt'",
		"git branch --contains=:a.txt", "git blame --no-ext-diff --no-textconv HEAD.. -- a", "git ls-files -m", "git ls-files -d", "git ls-files -o", "git ls-files --others", "git ls-files --modified", "git status",
		"git status -s", "git diff", "git diff HEAD", "git diff --stat", "git diff a b", "git diff ../x", "git diff a/../b", "git diff -- a..b",
		"git diff --no-ext-diff --no-textconv a b", "git diff --no-ext-diff --no-textconv -- a..b", "git log -p --no-textconv --no-ext-diff",
		"git show --no-ext-diff --no-textconv HEAD~1", "git diff --no-ext-diff --no-textconv HEAD~1..HEAD", "git blame --no-ext-diff --no-textconv HEAD -- a.txt",
	} {
		lines[line] = []string{""}
	}
	return lines
}

// changingLines returns command lines that must not be classified as reads: they write, run another
// program or hang, or their effect is not certain.
func changingLines() []string {
	return []string{
		"", " ", "rm x", "touch x", "tee x", "cat a | tee b", "xargs rm", "find . | xargs rm", "awk '{print}' a", "curl x", "cd /", "cd x && ls",
		"sh -c ls", "bash x", "eval ls", "source x", ". x", "exec ls", "env ls", "env", "sudo ls", "time ls", "nohup ls", "command ls", "command -p ls",
		"builtin ls", "./ls", "/bin/ls", `\ls`, "'ls'", `"ls"`, `l"s"`, "l's'", "unknown", "less a", "vi a", "nice ls",
		// The shell.
		"ls > x", "ls >> x", "ls >| x", "ls 2>&1x", "ls 2>&-", "ls 1>&2", "ls >&2", "ls >&x", "ls &> /dev/null", "ls 2> x", "ls 2>>/dev/null", "ls 2>/dev/nullx", "ls 2>'/dev/null'", "ls 3>/dev/null", "ls 2>$X", "2>/dev/null", "{ ls; } 2>/dev/null", "ls &> x", "cat < x", "cat <<E", "cat <<< x", "cat <(ls)", "ls >(rm x)", "rm x 2>&1", "rm x > /dev/null", "ls 2>&1 | tee x", "ls 2>&1 > x",
		"ls &", "ls & rm x", "ls |& cat", "! ls", "(ls)", "{ ls; }", "ls; rm x", "ls && rm x", "ls || rm x", "ls | rm x", "ls\nrm x", "ls\rrm x", "ls\x00",
		"ls\t-l", "ls # x", "ls #x; rm x", "#", "if true; then ls; fi", "for i in a; do ls; done", "while true; do ls; done", "f() { ls; }", "function f { ls; }", "coproc ls",
		"case a in a) ls;; esac", "[[ -f x ]]", "((x=1))", "let x=1", "export X=1", "declare x", "alias a=b", "X=1", "X=1 ls", "LD_PRELOAD=x ls", "GIT_EXTERNAL_DIFF=x git diff a..b",
		"PAGER=x git log", "X+=1 ls", "echo $X", "echo ${X}", "echo ${X:=1}", "echo $(rm x)", "echo `rm x`", `echo "$X"`, `echo "$(rm x)"`, "echo \"`rm x`\"", "echo $((x=1))",
		"echo $'a'", `echo $"a"`, `echo "a!b"`, `echo "a\\"`, `echo "a\"b"`, `echo a\ b`, `echo 'a\'`, "ls ''", `ls ""`, "echo {a,b}", "echo a{1..3}", "ls é", "ls 'é'", "ls\u00a0-l", "ls \xff",
		"echo ^x", "echo !x", "echo @(a)", "echo a=(b)", "ls;;", "ls | | cat", "ls |", "'", `"`, "$(ls)", "`ls`", "$X", "ls (x)", "ls x>y", "cat a b>c",
		// File names that are options.
		"ls *", "cat *", "sort *", "find *", "find . -name *", "find . -name a*", "cat -*", "cat +*", "cat -- *", "cat ?x", "cat ''*", "uniq a*", "xxd a*", "sort -t a* -- -ox", "sort -k a* x",
		// Devices, and the server's own standard input.
		"cat /dev/tty", "cat ../../dev/tty", "cat //host/x", `cat '\\host\x'`, "cat /proc/kmsg", "cat /x/../dev/tty", "grep x /dev/tty", "grep -f/dev/tty x y", "grep -nf/dev/stdin x", "grep -f - x", "grep -f- x", "grep --file=- x", "rg --file=- x", "grep --file=/dev/tty x", "cat dev/tty", "cat /sys/x", "cat ~sys/tty",
		"cat /de?/stdin", "cat /d*/stdin", "cat /p*c/kmsg", "cat ../../../../de?/stdin", "cat d*/tty", "cat ./d*/tty", "cat /x/../d*/tty", "cat a*/../../tty", "grep x --file=/de?/tty y", "cat /*", "ls ~/../../de*/tty", "cat /DEV/tty",
		"cat", "cat -", "jq -n input", "jq -n '[inputs]'", "jq --null-input .", "grep foo", "grep -r foo", "grep -R foo .", "wc -l", "sort", "head", "tr a b", "jq .", "rg foo", "sed -n 1p", "cat && ls", "git shortlog -sn HEAD", "ls | cat && cat",
		// Options.
		"tail -f x", "tail -cf x", "tail -5cf x", "tail -5f x", "tail -F x", "tail +5f x", "tail --follow x", "tail --retry x", "sort -o x x", "sort -ox x", "sort -no x x", "sort x -o x", "sort --output=x x", "sort --out x x", "sort --compress-program=x x", "sort -T x y", "sort -S 5 x", "sort --files0-from=x", "sort '-o' x y",
		"sort -k -ox x", "sort -- a -o b", "sort -k1 -- -ob", "uniq a b", "uniq -- a b", "xxd a b", "xxd -r a b", "tree -o x", "tree -Po a b", "tree -aLo 2 x", "tree -L2o x", "tree -R -L 1", "file -C", "file -Cm x", "file --compile", "file -z x", "file -p x", "printf -v x y", "printf", "test -v x", "[ x -eq 1 ]",
		"date -s x", "date --set=x", "date 010100", "date -d x", "hostname x", "hostname -F x", "hostname -s", "id -x", "seq 3", "rg --pre x y z", "rg --pre=x y z", "rg --hostname-bin=x y z", "rg -z x y", "diff --output=x a b", "diff -l a b", "du --files0-from=x", "wc --files0-from=x", "ls --unknown", "grep --fi x y z",
		"find . -delete", "find . -exec ls", `find . -exec rm {} \;`, "find . -execdir x", "find . -ok x", "find . -okdir x", "find . -fprint x", "find . -fprintf x y", "find . -fprint0 x", "find . -fls x", "find . -name -delete", "find . -newer -delete", "find -files0-from x", "find . '-delete'", "find . -name", `find . \! -delete`,
		"sed p x", "sed -i 1p x", "sed -n 1p -i x", "sed -n 1p x -i", "sed -n -i 1p x", "sed -n '1w x' x", "sed -n '1e' x", "sed -n '1,5w x' x", "sed -n 's/a/b/w x' x", "sed -n '1p;w x' x", "sed -n '/a/p' x", "sed -ni 1p x", "sed -n -e 1p x", "sed -n 1p --in-place x", "sed -n 1pw x",
		"go list", "go version", "go env -w A=b", "go test", "node --version", "npm ls", "python3 x", "python3 -c x", "python3 -V x", "jq -f x y", "jq --args . x", "yq -i . x",
		// Options after operands.
		"command rm -v x", "command rm -V x", "uniq a -c", "uniq a --", "git config a.b --list", `git "branch -a" --list x`, "uniq a.txt", "git config a.b --get", "git config a.b -l", "git config --global a.b --get",
		// git.

		"git grep foo", "git grep --no-textconv --untracked foo",
		"git grep --no-textconv foo",
		"git rev-parse ^:a.txt",
		"git blame --no-ext-diff --no-textconv ^HEAD -- a",
		"git ls-files -i --exclude-standard",
		"git", "git diff --no-ext-diff --no-textconv --output=x a..b", "git diff --no-ext-diff --no-textconv --ext-diff a..b", "git diff --no-ext-diff --no-textconv --textconv a..b", "git diff --no-ext-diff --no-textconv --no-index a b", "git describe --dirty",
		"git log --output=x", "git log --outp=x", "git log --show-signature", "git log --format=%G?", "git log --format='%+GS'", "git show --remerge-diff", "git -c a=b log", "git -c core.pager=x log", "git --exec-path=x log", "git --git-dir=x log", "git --config-env=a=b log", "git -p log", "git --paginate log", "git -C -c log", "git -Cx log", "git -C", "git -C src", "git -C src*  log", "git -C ~/a log", "git -C src add x", "git -c core.fsmonitor=x status", "git status --output=x", "git status --ignore-submodules", "git status -x", "git diff --textconv", "git show --ext-diff", "git diff --output x", "git diff -O x", "git diff --no-index a b", "git log -p --show-signature", "git status > x", "GIT_DIR=x git status", "git status; cd x",
		"git add x", "git commit -m x", "git checkout x", "git stash", "git stash pop", "git fetch", "git pull", "git push", "git gc", "git foo", "git branch x", "git branch -d x", "git branch -D x", "git branch -m x", "git branch -l x", "git branch -v x", "git branch -f x", "git branch -- --list", "git branch x -- --list", "git branch --format --list x",
		"git branch --sort --list x", "git branch --edit-description", "git branch -u x", "git branch --unset-upstream", "git branch --lis x", "git branch --contains --list x", "git tag x", "git tag -d x", "git tag -a x", "git tag -n5 x", "git tag -v x", "git tag --format --list x", "git remote add a b", "git remote show origin", "git remote update", "git remote -v update", "git remote rm x", "git remote get-url *",
		"git reflog expire", "git reflog delete x", "git config x y", "git config x", "git config --unset x", "git config --get x y", "git config --global x y", "git config -e", "git config --add a b", "git cat-file --batch", "git cat-file --textconv a", "git cat-file --filters a", "git grep -O x", "git grep -Ox x", "git grep --open-files-in-pager=x y", "git worktree add x", "git rev-list --stdin",
		"git for-each-ref --format='%(signature:key)'", "git for-each-ref --sort=-signature:key", "git branch --sort '*signature'", "git branch --sort=v:signature", "git for-each-ref --sort=-v:signature:key", "git tag -l --sort version:signature", "git blame --contents=- x", "git help", "git bisect log", "git submodule status", "git ls-remote", "git archive HEAD", "git log *",
	}
}

func TestShellLine(t *testing.T) {
	for _, c := range readingLines() {
		if level(c) != classify.Reads {
			t.Errorf("%q: got a write, want a read", c)
		}
	}
	for c, folders := range quietLines() {
		want := classify.Effect{Level: classify.Quiet, Folders: folders}
		if diff := cmp.Diff(want, classify.ShellLine(c)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c, diff)
		}
	}
	for _, c := range changingLines() {
		if level(c) != classify.Unknown {
			t.Errorf("%q: got a read, want a write", c)
		}
	}
	const most = 8 << 10
	long := "cat " + strings.Repeat("a", most)
	if level(long[:most]) != classify.Reads || level(long) != classify.Unknown {
		t.Errorf("a command of %d bytes: want a read, one of more a write", most)
	}
}

// TestShellLineWithMore adds writing parts to reading lines.
func TestShellLineWithMore(t *testing.T) {
	for _, c := range slices.AppendSeq(readingLines(), maps.Keys(quietLines())) {
		wantWritesWithMore(t, c)
	}
}

func wantWritesWithMore(t *testing.T, c string) {
	t.Helper()
	c = strings.TrimRight(c, "; ")
	for _, more := range []string{"; rm x", " && rm x", " | tee x", " > x", " >> x", " 2> x", " < x", " $(rm x)", " `rm x`", " $X", " <(rm x)", " &", "\nrm x", " # x", " {a,b}"} {
		if level(c+more) != classify.Unknown {
			t.Errorf("%q: got a read, want a write", c+more)
		}
	}
	for _, before := range []string{"X=1 ", "! ", "time ", "rm x; ", "sudo ", `\`, "./", "> x "} {
		if level(before+c) != classify.Unknown {
			t.Errorf("%q: got a read, want a write", before+c)
		}
	}
}

func FuzzShellLine(f *testing.F) {
	for _, c := range slices.AppendSeq(append(readingLines(), changingLines()...), maps.Keys(quietLines())) {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, c string) {
		if level(c) == classify.Unknown {
			return
		}
		file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(c), "")
		if err != nil {
			t.Fatalf("%q: %v", c, err)
		}
		syntax.Walk(file, func(n syntax.Node) bool {
			switch n := n.(type) {
			case nil, *syntax.File, *syntax.Stmt, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
			case *syntax.Redirect:
				if to := n.Word.Lit(); to != "/dev/null" && (n.Op != syntax.DplOut || to != "1") {
					t.Errorf("%q: redirects to %q", c, to)
				}
			case *syntax.BinaryCmd:
				if n.Op == syntax.PipeAll {
					t.Errorf("%q: has |&", c)
				}
			case *syntax.CallExpr:
				if name := n.Args[0].Lit(); slices.Contains(changingCommands, name) || len(n.Assigns) > 0 {
					t.Errorf("%q: calls %q", c, name)
				}
			default:
				t.Errorf("%q: has a %T", c, n)
			}
			return true
		})
		if strings.ContainsAny(c, "\n\x00") {
			t.Errorf("%q: has what is refused", c)
		}
		wantWritesWithMore(t, c)
	})
}

package classify_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"mcpschedd/internal/classify"
)

// git goes from a link to the parent of its target, as the system does, and the configuration
// there may name a program.
func TestPlainGitBehindLink(t *testing.T) {
	dir := t.TempDir()
	plain, other, sorted := filepath.Join(dir, "plain"), filepath.Join(dir, "other"), filepath.Join(dir, "sorted")
	for path, config := range map[string]string{plain: "", other: "[core]\n\tfsmonitor = x\n", sorted: "[branch]\n\tsort = -signature\n"} {
		git := filepath.Join(path, ".git")
		err := cmp.Or(os.MkdirAll(filepath.Join(git, "objects"), 0o700), os.MkdirAll(filepath.Join(git, "refs"), 0o700),
			os.MkdirAll(filepath.Join(path, "src"), 0o700), os.MkdirAll(filepath.Join(path, "lib", ".git"), 0o700),
			os.WriteFile(filepath.Join(git, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600),
			os.WriteFile(filepath.Join(git, "config"), []byte(config), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "src"), filepath.Join(plain, "link")); err != nil {
		t.Skip(err)
	}
	server := classify.Process{Path: "server", Dir: plain, Env: []string{"HOME=" + dir}}
	for command, want := range map[string]bool{
		"git status": true, "git -C src status": true, "git -C src -C .. status": true, "git -C link/../src/.. status": false,
		"git -C link status": false, "git -C link/.. status": false, "git -C link -C .. status": false,
		"git -C ../sorted branch":    false, // an order by signatures runs gpg
		"git -C ../other/lib status": false, // git skips a .git that is no repository
	} {
		e := classify.ShellLine(command)
		if e.Level != classify.Quiet || classify.PlainGit(server, e.Folders) != want {
			t.Errorf("%s: got %v in %q, want %t", command, e.Level, e.Folders, want)
		}
	}
}

package mcpschedd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// make module changes the path of both modules, also a second time, and no file if the path is
// wrong. A soak test also compiles both, which takes a minute with an empty cache.
func TestModule(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"cmd", "internal", "tools"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "layout_test.go", "Makefile"} {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run := func(folder, name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = filepath.Join(dir, folder)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	for _, wrong := range []string{"", "--help", "no path", "owner/mcpschedd", "example.com/../x", "example.com/a b"} {
		if out, err := run(".", "make", "module", "MODULE="+wrong); err == nil {
			t.Errorf("%q: got no error: %s", wrong, out)
		}
	}
	if path, err := run(".", "go", "list", "-m"); err != nil || strings.Contains(path, ".") {
		t.Errorf("got the path %s, %v after wrong ones", path, err)
	}
	const path = "gitlab.com/example/place"
	for _, path := range []string{"github.com/example/mcpschedd", path} {
		if out, err := run(".", "make", "module", "MODULE="+path); err != nil {
			t.Fatalf("%s: %v: %s", path, err, out)
		}
	}
	for folder, want := range map[string]string{".": path + "/internal/proxy", "tools": path + "/tools/bench"} {
		if out, err := run(folder, "go", "list", "./..."); err != nil || !slices.Contains(strings.Fields(out), want) {
			t.Errorf("%s: got %s, %v, want the package %s", folder, out, err, want)
		}
		if diff, err := run(folder, "go", "mod", "tidy", "-diff"); err != nil {
			t.Errorf("%s is not tidy: %v\n%s", folder, err, diff)
		}
		if os.Getenv("MCPSCHEDD_SOAK") != "" {
			if _, err := run(folder, "go", "build", "-trimpath", "-buildvcs=false", "./..."); err != nil {
				t.Errorf("%s: %v", folder, err)
			}
		}
	}
	if bad, err := run(".", "gofmt", "-l", "."); err != nil || bad != "" {
		t.Errorf("not formatted: %s, %v", bad, err)
	}
}

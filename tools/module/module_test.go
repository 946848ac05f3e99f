package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// In a copy of the program with another path, every import of both modules is changed. A soak test
// also compiles both, which takes a minute with an empty cache.
func TestRenamedBuilds(t *testing.T) {
	os.Getenv("MCPSCHEDD_PROGRAMS") // the go command repeats the test if the program has changed
	dir := t.TempDir()
	copied(t, filepath.Join("..", ".."), dir)
	const path = "github.com/example/mcpschedd"
	if err := run(t.Context(), []string{path, dir}, nil, nil); err != nil {
		t.Fatal(err)
	}
	for folder, packages := range map[string][]string{".": {path, path + "/cmd/mcpschedd", path + "/internal/proxy"}, "tools": {path + "/tools/bench", path + "/tools/module"}} {
		at := filepath.Join(dir, folder)
		found := strings.Split(output(t, at, "go", "list", "-e", "-deps", "-test", "-f", "{{.ImportPath}}{{with .Error}} {{.}}{{end}}", "./..."), "\n")
		for _, want := range packages {
			if !slices.Contains(found, want) {
				t.Errorf("%s: want the package %s", folder, want)
			}
		}
		for _, line := range found {
			if strings.Contains(line, ": ") || strings.HasPrefix(line, "mcpschedd") {
				t.Errorf("%s: %s", folder, line)
			}
		}
		if os.Getenv("MCPSCHEDD_SOAK") != "" {
			output(t, at, "go", "build", "-trimpath", "-buildvcs=false", "./...")
		}
	}
	for _, folder := range []string{dir, filepath.Join(dir, "tools")} {
		if diff := output(t, folder, "go", "mod", "tidy", "-diff"); diff != "" {
			t.Errorf("%s is not tidy:\n%s", folder, diff)
		}
	}
	output(t, dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(t.TempDir(), "small"), "./cmd/mcpschedd-small")
	if bad := output(t, dir, "gofmt", "-l", "."); bad != "" {
		t.Errorf("not formatted: %s", bad)
	}

	// A second run changes nothing.
	again := contents(t, dir)
	if err := run(t.Context(), []string{path, dir}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(again, contents(t, dir)); d != "" {
		t.Errorf("the second run changed:\n%s", d)
	}
}

func TestMistakes(t *testing.T) {
	for name, args := range map[string][]string{
		"nothing":       nil,
		"a flag":        {"--help"},
		"no path":       {"no path", t.TempDir()},
		"no address":    {"mcpschedd/../x", t.TempDir()},
		"no module":     {"example.com/x", t.TempDir()},
		"three of them": {"example.com/x", "a", "b"},
	} {
		if err := run(t.Context(), args, nil, nil); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// copied copies a folder without the files that git ignores.
func copied(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "results", "node_modules", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular() || d.Name() == ".git":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contents returns the files of a folder by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stderr strings.Builder // downloads are reported there
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s%s", name, args, err, out, &stderr)
	}
	return strings.TrimSpace(string(out))
}

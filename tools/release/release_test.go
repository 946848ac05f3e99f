package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Two checkouts of a commit at different paths give the same bytes, even if one of them has other
// files.
func TestSameCommitSameBytes(t *testing.T) {
	first := repository(t)
	second := filepath.Join(t.TempDir(), "elsewhere", "deeper")
	command(t, t.TempDir(), "git", "clone", "-q", first, second)
	write(t, filepath.Join(second, "cmd/mcpschedd/main.go"), "package broken")
	a, b := built(t, first), built(t, second)
	if d := cmp.Diff(a["SHA256SUMS"], b["SHA256SUMS"]); d != "" {
		t.Errorf("the second release differs from the first:\n%s", d)
	}
	for _, want := range []string{"mcpschedd_v0.3.0_linux_amd64.tar.gz", "mcpschedd_v0.3.0_windows_arm64.zip", "mcpschedd_v0.3.0_linux_amd64.cdx.json", "mcpschedd_v0.3.0_windows_arm64.cdx.json"} {
		if !regexp.MustCompile(`(?m)^[0-9a-f]{64}  ` + regexp.QuoteMeta(want) + `$`).MatchString(a["SHA256SUMS"]) {
			t.Errorf("got\n%swant %s in it", a["SHA256SUMS"], want)
		}
	}
	if len(a) != 5 {
		t.Errorf("got %d files, want 5", len(a))
	}
	want := []string{"mcpschedd_v0.3.0_linux_amd64/mcpschedd-full 755", "mcpschedd_v0.3.0_linux_amd64/mcpschedd 755", "mcpschedd_v0.3.0_linux_amd64/mcpschedd-small 755", "mcpschedd_v0.3.0_linux_amd64/mcpschedd-guard 755", "mcpschedd_v0.3.0_linux_amd64/THIRD-PARTY-LICENSES 644", "mcpschedd_v0.3.0_linux_amd64/LICENSE 644"}
	if d := cmp.Diff(want, untarred(t, a["mcpschedd_v0.3.0_linux_amd64.tar.gz"])); d != "" {
		t.Error(d)
	}
	zipped, err := zip.NewReader(strings.NewReader(a["mcpschedd_v0.3.0_windows_arm64.zip"]), int64(len(a["mcpschedd_v0.3.0_windows_arm64.zip"])))
	if err != nil || len(zipped.File) != 4 || zipped.File[0].Name != "mcpschedd_v0.3.0_windows_arm64/mcpschedd.exe" || zipped.File[1].Name != "mcpschedd_v0.3.0_windows_arm64/mcpschedd-small.exe" {
		t.Errorf("got %v, %v, want mcpschedd.exe, the small program and the licences", zipped, err)
	}
	var doc bill
	if err := json.Unmarshal([]byte(a["mcpschedd_v0.3.0_linux_amd64.cdx.json"]), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Format != "CycloneDX" || doc.Metadata.Component.PURL != "pkg:golang/mcpschedd@v0.3.0" || len(doc.Components) != 1 || !strings.HasPrefix(doc.Components[0].PURL, "pkg:golang/std@1.") {
		t.Errorf("got %+v", doc)
	}
	if !strings.Contains(a["mcpschedd_v0.3.0_linux_amd64.cdx.json"], `"go:build:vcs.revision"`) {
		t.Error("the list of components does not have the commit")
	}
}

// Every module of the program has a licence that is distributed with it.
func TestNotices(t *testing.T) {
	os.Getenv("MCPSCHEDD_PROGRAMS") // the go command repeats the test if the program has changed
	source := filepath.Join("..", "..")
	found, err := output(source, nil, "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/...")
	if err != nil {
		t.Fatal(err)
	}
	info := &debug.BuildInfo{GoVersion: runtime.Version()}
	for _, path := range slices.Compact(slices.Sorted(strings.SplitSeq(found, "\n"))) {
		info.Deps = append(info.Deps, &debug.Module{Path: path})
	}
	said, err := notices(source, info)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !strings.Contains(string(said), "==== "+m.Path+" v") {
			t.Errorf("nothing of %s", m.Path)
		}
	}
	if len(info.Deps) < 20 || !strings.Contains(string(said), "==== Go go1.") {
		t.Errorf("got %d modules, and want Go itself too", len(info.Deps))
	}
}

func TestMistakes(t *testing.T) {
	full := t.TempDir()
	write(t, filepath.Join(full, "file"), "")
	for name, args := range map[string][]string{
		"two folders":     {"a", "b"},
		"a flag":          {"-no"},
		"no checkout":     {"-out", t.TempDir(), t.TempDir()},
		"a full folder":   {"-out", full, ".."},
		"a strange place": {"-out", t.TempDir(), "-systems", "linux", repository(t)},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// repository returns a tagged repository with a small program.
func repository(t *testing.T) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module mcpschedd\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "LICENSE"), "MIT\n")
	for _, p := range elsewhere {
		write(t, filepath.Join(dir, "cmd", p.command, "main.go"), "package main\n\nfunc main() { panic(\"here\") }\n")
	}
	command(t, dir, "git", "init", "-q")
	command(t, dir, "git", "add", ".")
	command(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "tiny")
	command(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "tag", "v0.3.0")
	return dir
}

// built returns the files of a release, by name.
func built(t *testing.T, checkout string) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if err := run(t.Context(), []string{"-out", out, "-systems", "linux/amd64,windows/arm64", checkout}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = string(content)
	}
	return files
}

// untarred returns the names and modes of the files in an archive.
func untarred(t *testing.T, text string) (names []string) {
	t.Helper()
	plain, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o", head.Name, head.Mode))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

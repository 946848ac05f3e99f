package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const program = "mcpschedd"

// executable is a program of a release: a command of the source, built with these tags.
type executable struct{ name, command, tags string }

// onWindows are the programs on Windows, where no program can replace itself by another.
var onWindows = []executable{{program + ".exe", program, "grpcnotrace"}, {"mcpschedd-small.exe", "mcpschedd-small", ""}}

// elsewhere are the programs on other systems. The first one has all libraries of the others.
var elsewhere = []executable{
	{program + "-full", program, "grpcnotrace"},
	{program, program, "lean"},
	{"mcpschedd-small", "mcpschedd-small", ""},
	{"mcpschedd-guard", "mcpschedd-guard", ""},
}

// documents are added to each archive, if the commit has them.
var documents = []string{"LICENSE", "README.md", "CHANGELOG.md", "configs/pipeline_config.toml"}

// release builds the HEAD of a checkout into out.
func release(w io.Writer, checkout, out string, systems []string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(out); err != nil || len(old) > 0 {
		return fmt.Errorf("%s: want a new or empty folder (%d files, %v)", out, len(old), err)
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	source := filepath.Join(work, "source")
	made, err := cloned(checkout, source)
	if err != nil {
		return err
	}
	for _, system := range systems {
		names, err := pack(source, filepath.Join(work, "bin"), out, system, made)
		if err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
		fmt.Fprintln(w, strings.Join(names, "\n"))
	}
	return sums(out)
}

// cloned puts the HEAD of a checkout into a folder, and returns the time of the commit. It prints
// a note if the checkout has changes, which are not built.
func cloned(checkout, source string) (time.Time, error) {
	if changed, err := output(checkout, nil, "git", "status", "--porcelain"); err != nil {
		return time.Time{}, err
	} else if changed != "" {
		fmt.Fprintln(os.Stderr, "release: warning: what is not committed is left out")
	}
	if _, err := output(checkout, nil, "git", "clone", "--quiet", ".", source); err != nil {
		return time.Time{}, err
	}
	text, err := output(source, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// pack builds the commands of the source for one system, and writes their archive and their
// components.
func pack(source, bin, out, system string, made time.Time) (names []string, err error) {
	goos, goarch, is := strings.Cut(system, "/")
	if !is {
		return nil, fmt.Errorf("want OS/ARCHITECTURE")
	}
	programs := elsewhere
	if goos == "windows" {
		programs = onWindows
	}
	bin = filepath.Join(bin, goos+"_"+goarch)
	var files []entry
	for _, p := range programs {
		to := filepath.Join(bin, p.name)
		if err := p.build(source, to, goos, goarch); err != nil {
			return nil, err
		}
		files = append(files, entry{from: to, name: p.name, mode: 0o755})
	}
	info, err := buildinfo.ReadFile(files[0].from)
	if err != nil {
		return nil, err
	}
	said, err := notices(source, info)
	if err != nil {
		return nil, err
	}
	licences := entry{from: filepath.Join(bin, "THIRD-PARTY-LICENSES"), name: "THIRD-PARTY-LICENSES", mode: 0o644}
	if err := os.WriteFile(licences.from, said, 0o600); err != nil {
		return nil, err
	}
	files = append(files, licences)
	name := strings.Join([]string{program, info.Main.Version, goos, goarch}, "_")
	for _, d := range documents {
		if from := filepath.Join(source, filepath.FromSlash(d)); exists(from) {
			files = append(files, entry{from: from, name: filepath.Base(from), mode: 0o644})
		}
	}
	packed, write := name+".tar.gz", writeTar
	if goos == "windows" {
		packed, write = name+".zip", writeZip
	}
	if err := written(filepath.Join(out, packed), func(w io.Writer) error { return write(w, name, made, files) }); err != nil {
		return nil, err
	}
	bill := name + ".cdx.json"
	return []string{packed, bill}, written(filepath.Join(out, bill), func(w io.Writer) error { return writeBill(w, info, made) })
}

// build compiles a program. Everything in the environment that could change the bytes is set.
func (p executable) build(source, to, goos, goarch string) error {
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=", "GOWORK=off",
		"GOEXPERIMENT=", "GOFIPS140=off", "GOAMD64=v1", "GOARM64=v8.0")
	_, err := output(source, environment, "go", "build", "-trimpath", "-buildvcs=true", "-tags="+p.tags, "-ldflags=-s -w", "-o", to, "./cmd/"+p.command)
	return err
}

// sums writes SHA256SUMS in the format of sha256sum -c.
func sums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum[:]), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// output returns what a command prints, without the last line end; an error contains its stderr.
func output(dir string, environment []string, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, environment, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// written creates a file with the output of a function.
func written(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

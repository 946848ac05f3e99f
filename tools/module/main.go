// Command module changes the module path of the program, for when its repository is public and has
// an address: in go.mod, in tools/go.mod, and in every import of both modules.
//
//	go run -C tools ./module github.com/example/mcpschedd
//
// Other names that begin with the old path are unchanged: keys of _meta and folders have the
// program's name, not its address.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"mcpschedd/tools/launch"
)

func main() { launch.Main("module", run) }

func run(_ context.Context, args []string, _, _ io.Writer) error {
	if len(args) == 0 || len(args) > 2 || strings.HasPrefix(args[0], "-") {
		return errors.New("usage: module PATH [DIR], such as github.com/example/mcpschedd; DIR is the folder with the program's go.mod (default ..)")
	}
	dir := ".."
	if len(args) == 2 {
		dir = args[1]
	}
	if err := module.CheckPath(args[0]); err != nil {
		return err
	}
	return rename(dir, args[0])
}

// rename changes the path of the module in a folder, and of the one in its folder tools.
func rename(dir, path string) error {
	goMod := filepath.Join(dir, "go.mod")
	text, err := os.ReadFile(goMod)
	if err != nil {
		return err
	}
	old := modfile.ModulePath(text)
	if old == "" {
		return fmt.Errorf("%s: no module line", goMod)
	}
	if old == path {
		return nil
	}
	// The files are changed first, so that an interrupted run can be repeated with the same old
	// path.
	if err := imports(dir, old, path); err != nil {
		return err
	}
	paths := map[string]string{old: path, old + "/tools": path + "/tools"}
	if err := edited(filepath.Join(dir, "tools", "go.mod"), paths); err != nil {
		return err
	}
	return edited(goMod, paths)
}

// edited replaces paths in a go.mod, word by word, so that its format is preserved.
func edited(name string, paths map[string]string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed := regexp.MustCompile(`[^\s()]+`).ReplaceAllFunc(text, func(word []byte) []byte {
		return []byte(cmp.Or(paths[string(word)], string(word)))
	})
	return os.WriteFile(name, changed, 0o644)
}

// imports rewrites the imports of all Go files below a folder, except in test data of other
// modules.
func imports(dir, old, path string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		changed, err := rewritten(text, old, path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if changed == nil {
			return nil
		}
		return os.WriteFile(name, changed, 0o644)
	})
}

// rewritten returns a file with changed imports, formatted; nil if there is nothing to change.
func rewritten(text []byte, old, path string) ([]byte, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	changed, ours := slices.Clone(text), false
	for _, spec := range slices.Backward(f.Imports) {
		rest, is := strings.CutPrefix(strings.Trim(spec.Path.Value, "\"`"), old)
		if !is || rest != "" && rest[0] != '/' {
			continue
		}
		at := files.Position(spec.Path.Pos()).Offset
		changed, ours = slices.Replace(changed, at, at+len(spec.Path.Value), []byte(strconv.Quote(path+rest))...), true
	}
	if !ours {
		return nil, nil
	}
	return format.Source(changed)
}

// Command module gives the program another module path, for the day its repository is
// public and has an address: in go.mod, in tools/go.mod, and in every import of both.
//
//	go run -C tools ./module github.com/example/mcpschedd
//
// Nothing else that begins with the old path is touched: keys of _meta and folders bear
// the program's name, not its address.
package main

import (
	"errors"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "module: error:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
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

// rename gives the module in a folder, and the one in its folder tools, the path.
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
	// The files first: a run that was interrupted begins anew with the same old path.
	if err := imports(dir, old, path); err != nil {
		return err
	}
	if err := edited(filepath.Join(dir, "tools", "go.mod"), func(f *modfile.File) error { return tools(f, old, path) }); err != nil {
		return err
	}
	return edited(goMod, func(f *modfile.File) error { return f.AddModuleStmt(path) })
}

// tools renames the module of the tools and what it requires: the program, from the folder
// above.
func tools(f *modfile.File, old, path string) error {
	if f.Module.Mod.Path == path+"/tools" {
		return nil
	}
	return errors.Join(
		f.AddModuleStmt(path+"/tools"),
		f.DropRequire(old), f.DropReplace(old, ""),
		f.AddRequire(path, "v0.0.0"), f.AddReplace(path, "", "..", ""))
}

// edited changes a go.mod.
func edited(name string, change func(*modfile.File) error) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	f, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.Cleanup()
	text, err = f.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// imports rewrites the imports of all Go files below a folder, but for those of other
// modules' test data.
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

// rewritten is a file with other imports, formatted; nil if it has none to change.
func rewritten(text []byte, old, path string) ([]byte, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, "", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var changed []byte
	done := 0
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		rest, ours := strings.CutPrefix(imported, old)
		if !ours || rest != "" && rest[0] != '/' {
			continue
		}
		at := files.Position(spec.Path.Pos()).Offset
		changed = append(changed, text[done:at]...)
		changed = append(changed, strconv.Quote(path+rest)...)
		done = at + len(spec.Path.Value)
	}
	if changed == nil {
		return nil, nil
	}
	return format.Source(append(changed, text[done:]...))
}

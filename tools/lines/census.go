package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Census has all counts.
type Census struct {
	Product []*Package // sorted by name, as are all lists here
	Total   *Package   // of the product
	Page    []File     // files that a browser gets
	Tables  []File     // other files that are part of the binary
	Tools   []*Package // of the module in tools/
	Scripts []File     // shell and JavaScript in tools/
}

// Package is the Go of one folder.
type Package struct {
	Name     string
	Files    int
	Lines    int
	Comment  float64 // share of the lines that are not blank
	LineP90  int
	FuncP90  int
	Exported int
	Wide     []Wide
	Mutexes  int
	Tests    int // lines of *_test.go

	text text
}

// Wide is a type with many fields or methods.
type Wide struct {
	Name    string
	Fields  int
	Methods int
}

// File is a file that is not Go.
type File struct {
	Name  string
	Lines int
}

// take counts the program in dir, and its tools if there are any.
func take(dir string) (*Census, error) {
	c := &Census{Total: &Package{Name: "product"}}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	loaded, err := load(dir)
	if err != nil {
		return nil, err
	}
	for _, from := range loaded {
		p, err := count(from)
		if err != nil {
			return nil, err
		}
		c.Product = append(c.Product, p)
		c.Total.add(p)
		for _, file := range from.EmbedFiles {
			f, err := fileOf(dir, file)
			if err != nil {
				return nil, err
			}
			if slices.Contains([]string{".html", ".css", ".js"}, path.Ext(f.Name)) {
				c.Page = append(c.Page, f)
			} else {
				c.Tables = append(c.Tables, f)
			}
		}
	}
	c.Total.text.figures(c.Total)
	tools := filepath.Join(dir, "tools")
	if _, err := os.Stat(filepath.Join(tools, "go.mod")); err == nil {
		if err := c.countTools(dir, tools); err != nil {
			return nil, err
		}
	}
	for _, files := range [][]File{c.Page, c.Tables, c.Scripts} {
		slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	}
	return c, nil
}

// countTools counts the module in tools/.
func (c *Census) countTools(dir, tools string) error {
	loaded, err := load(tools)
	if err != nil {
		return err
	}
	for _, from := range loaded {
		p, err := count(from)
		if err != nil {
			return err
		}
		c.Tools = append(c.Tools, p)
	}
	return filepath.WalkDir(tools, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"testdata", "node_modules"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !slices.Contains([]string{".sh", ".mjs"}, filepath.Ext(name)) {
			return nil
		}
		f, err := fileOf(dir, name)
		c.Scripts = append(c.Scripts, f)
		return err
	})
}

// load reads the packages of the module in dir for Linux, so that every system counts the same
// types.
func load(dir string) ([]*packages.Package, error) {
	loaded, err := packages.Load(&packages.Config{
		Dir: dir,
		Env: append(os.Environ(), "GOOS=linux"), BuildFlags: []string{"-tags=browser"},
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedEmbedFiles | packages.NeedImports |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule | packages.NeedExportFile,
	}, "./...")
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, p := range loaded {
		for _, fault := range p.Errors {
			faults = append(faults, fault)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, fmt.Errorf("%s: no Go packages", dir)
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return cmp.Compare(a.PkgPath, b.PkgPath) })
	return loaded, nil
}

// count counts a package: its text in the files for all systems, its types in those for Linux.
func count(from *packages.Package) (*Package, error) {
	p := &Package{Name: cmp.Or(strings.TrimPrefix(strings.TrimPrefix(from.PkgPath, from.Module.Path), "/"), "."), Wide: []Wide{}}
	entries, err := os.ReadDir(from.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(from.Dir, e.Name())
		if e.IsDir() || filepath.Ext(name) != ".go" {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, "_test.go") {
			p.Tests += lines(source)
			continue
		}
		p.Files++
		p.Lines += lines(source)
		if err := p.text.read(name, source); err != nil {
			return nil, err
		}
	}
	p.text.figures(p)
	if from.Types != nil && len(from.Syntax) > 0 {
		p.Exported = exported(from.Types)
		p.Wide = wide(from.Types, from.Module.Path)
		p.Mutexes = mutexes(from)
	}
	return p, nil
}

// add adds a package to a total. Shares and percentiles of the total are those of the whole text.
func (p *Package) add(q *Package) {
	p.Files += q.Files
	p.Lines += q.Lines
	p.Exported += q.Exported
	p.Mutexes += q.Mutexes
	p.Tests += q.Tests
	for _, w := range q.Wide {
		p.Wide = append(p.Wide, Wide{q.Name + "." + w.Name, w.Fields, w.Methods})
	}
	p.text.add(&q.text)
}

// mutexes returns the number of fields and variables of a package that are mutexes.
func mutexes(p *packages.Package) int {
	n := 0
	for _, file := range p.Syntax {
		ast.Inspect(file, func(node ast.Node) bool {
			if s, ok := node.(*ast.SelectorExpr); ok {
				if is := p.TypesInfo.Uses[s.Sel]; is != nil && is.Pkg() != nil && is.Pkg().Path() == "sync" && (is.Name() == "Mutex" || is.Name() == "RWMutex") {
					n++
				}
			}
			return true
		})
	}
	return n
}

// fileOf counts a file with a path relative to the root.
func fileOf(root, name string) (File, error) {
	text, err := os.ReadFile(name)
	return File{relative(root, name), lines(text)}, err
}

func relative(root, name string) string {
	return filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator)))
}

// lines returns the number of lines of a text, including an incomplete last one.
func lines(text []byte) int {
	n := bytes.Count(text, []byte("\n"))
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

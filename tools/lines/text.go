package main

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"
)

// text has the figures of the source of a package.
type text struct {
	comments int   // lines that hold only a comment
	lengths  []int // of each line that is not blank, in characters
	funcs    []int // lines of each function and method
}

// read adds a file.
func (t *text) read(name string, source []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			t.funcs = append(t.funcs, files.PositionFor(f.End(), false).Line-files.PositionFor(f.Pos(), false).Line+1)
		}
	}
	code := codeLines(source)
	for n, line := range strings.Split(string(source), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !code[n+1] {
			t.comments++
		}
		t.lengths = append(t.lengths, utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    ")))
	}
	return nil
}

// codeLines returns the numbers of the lines that have a token other than a comment.
func codeLines(source []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	code := make(map[int]bool)
	for {
		pos, is, literal := s.Scan()
		switch {
		case is == token.EOF:
			return code
		case is == token.SEMICOLON && literal != ";": // inserted by the scanner at the end of a line
			continue
		}
		first := file.PositionFor(pos, false).Line
		for n := range strings.Count(literal, "\n") + 1 {
			code[first+n] = true
		}
	}
}

func (t *text) add(u *text) {
	t.comments += u.comments
	t.lengths = append(t.lengths, u.lengths...)
	t.funcs = append(t.funcs, u.funcs...)
}

// figures copies the figures of the text to its package.
func (t *text) figures(p *Package) {
	if len(t.lengths) > 0 {
		p.Comment = float64(t.comments) / float64(len(t.lengths))
	}
	p.LineP90, p.FuncP90 = p90(t.lengths), p90(t.funcs)
}

// p90 returns the smallest value that 90 % of the values do not exceed.
func p90(values []int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*9+9)/10-1]
}

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print writes the tables for people.
func (c *Census) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := func(of string) {
		fmt.Fprintf(t, "files\tlines\tcomment %%\tline p90\tfunc p90\texported\twide\tmutexes\ttests\t  %s\n", of)
	}
	row := func(p *Package) {
		fmt.Fprintf(t, "%d\t%d\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t  %s\n",
			p.Files, p.Lines, 100*p.Comment, p.LineP90, p.FuncP90, p.Exported, len(p.Wide), p.Mutexes, p.Tests, p.Name)
	}
	head("package")
	for _, p := range c.Product {
		row(p)
	}
	row(c.Total)
	if len(c.Tools) > 0 {
		fmt.Fprintln(t)
		head("tools/")
		tools := &Package{Name: "tools"}
		for _, p := range c.Tools {
			row(p)
			tools.add(p)
		}
		tools.text.figures(tools)
		row(tools)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var b strings.Builder
	if len(c.Total.Wide) > 0 {
		fmt.Fprintf(&b, "\nwide: over %d fields or %d methods\n", manyFields, manyMethods)
		for _, is := range c.Total.Wide {
			fmt.Fprintf(&b, "%7d fields %4d methods  %s\n", is.Fields, is.Methods, is.Name)
		}
	}
	list := func(what string, files []File) {
		if len(files) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s\n", what)
		sum := 0
		for _, f := range files {
			fmt.Fprintf(&b, "%7d  %s\n", f.Lines, f.Name)
			sum += f.Lines
		}
		fmt.Fprintf(&b, "%7d  in all\n", sum)
	}
	list("page: lines of what a browser is given", c.Page)
	list("tables: lines of other files in the binary", c.Tables)
	list("scripts of tools/", c.Scripts)
	_, err := io.WriteString(w, b.String())
	return err
}

package main

import (
	"encoding/json"
	"io"
	"runtime/debug"
	"strings"
	"time"
)

// bill is a CycloneDX document: the components of a program.
type bill struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// writeBill writes the components that the linker put into a program: its modules with their sums,
// Go's standard library, and how it was built. The time is that of the commit, so that the
// document is reproducible.
func writeBill(w io.Writer, info *debug.BuildInfo, made time.Time) error {
	whole := module("application", debug.Module{Path: info.Main.Path, Version: info.Main.Version})
	whole.Name = program
	for _, s := range info.Settings {
		whole.Properties = append(whole.Properties, property{"go:build:" + s.Key, s.Value})
	}
	doc := bill{
		Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata:   metadata{made.Format(time.RFC3339), whole},
		Components: []component{module("library", debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})},
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		doc.Components = append(doc.Components, module("library", *m))
	}
	top := dependency{Ref: whole.Ref}
	for _, c := range doc.Components {
		top.DependsOn = append(top.DependsOn, c.Ref)
	}
	doc.Dependencies = []dependency{top}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}

// module returns a Go module as a component. The sum is that of the module's files, as in go.sum.
func module(kind string, m debug.Module) component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := component{Type: kind, Ref: url, Name: m.Path, Version: m.Version, PURL: url}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}

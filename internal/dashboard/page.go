package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"mcpschedd/internal/record"
)

//go:embed page
var files embed.FS

// scripts are concatenated in this order: each uses only earlier ones.
var scripts = []string{"words.js", "dom.js", "table.js", "top.js", "tools.js", "timeline.js", "graph.js", "decisions.js", "hosts.js", "figures.js", "live.js"}

// noContent is the content security policy of responses that are not pages.
const noContent = "default-src 'none'; frame-ancestors 'none'"

// document is a page ready to be sent.
type document struct {
	text   string
	policy string // content security policy: only its own script and requests to its own origin
}

// newPage assembles the dashboard page.
func newPage() *document {
	words, err := json.Marshal(record.Glossary()) // Marshal escapes "</script>"
	if err != nil {
		panic(err) // the input is part of the program
	}
	var script strings.Builder
	fmt.Fprintf(&script, "\"use strict\";\n(() => {\nconst WORDS = %s;\n", words) // in a function, so that names do not become properties of window
	for _, name := range scripts {
		script.WriteString(read(name))
	}
	script.WriteString("})();\n")
	return newDocument(read("page.html"), script.String())
}

// newDocument inserts the style and the script into a page. The policy names their hashes, so
// that no injected code runs, and requires trusted types, of which there are none, so that a
// script cannot create markup from text.
func newDocument(text, script string) *document {
	style := read("style.css")
	policy := noContent + "; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style)
	if script != "" {
		policy += "; script-src " + hash(script) + "; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
	}
	return &document{strings.NewReplacer("{{style}}", style, "{{script}}", script).Replace(text), policy}
}

func (d *document) serve(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Security-Policy", d.policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, d.text) // fails only if the client has disconnected
}

// writeJSON writes v as the response.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
}

// read returns the content of an embedded file.
func read(name string) string {
	data, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the input is part of the program
	}
	return string(data)
}

// hash returns the source expression of a script or style in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

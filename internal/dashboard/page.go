package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
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
	text   []byte
	policy string // content security policy: only its own script and requests to its own origin
}

// newPage assembles the dashboard page.
func newPage() *document {
	var script strings.Builder
	words, err := json.Marshal(record.Words()) // Marshal escapes "</script>"
	if err != nil {
		panic(err) // the input is part of the program
	}
	fmt.Fprintf(&script, "\"use strict\";\n(() => {\nconst WORDS = %s;\n", words) // in a function, so that names do not become properties of window
	for _, name := range scripts {
		script.WriteString(read(name))
	}
	return newDocument(read("page.html"), script.String()+"})();\n")
}

// newDocument inserts the style and the script into a page. The policy names their hashes, so
// that no injected code runs, and requires trusted types, of which there are none, so that a
// script cannot create markup from text.
func newDocument(text, script string) *document {
	style := read("style.css")
	text = strings.NewReplacer("{{style}}", style, "{{script}}", script).Replace(text)
	policy := noContent + "; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style)
	if script != "" {
		policy += "; script-src " + hash(script) + "; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
	}
	return &document{[]byte(text), policy}
}

func (d *document) serve(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Security-Policy", d.policy)
	send(w, code, "text/html; charset=utf-8", d.text)
}

// writeJSON writes v as the response.
func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a figure is NaN or infinite
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, http.StatusOK, "application/json", body)
}

func send(w http.ResponseWriter, code int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body) // fails only if the client has disconnected
}

// read returns the content of an embedded file.
func read(name string) string {
	data, err := fs.ReadFile(files, "page/"+name)
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

package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"mcpschedd/internal/record"
)

//go:embed page
var files embed.FS

// scripts are put together in this order: each uses only what stands before it.
var scripts = []string{"words.js", "dom.js", "table.js", "top.js", "tools.js", "timeline.js", "graph.js", "decisions.js", "series.js", "hosts.js", "figures.js", "live.js"}

// noContent is the policy of an answer that is not a page.
const noContent = "default-src 'none'; frame-ancestors 'none'"

// document is a page as it is sent.
type document struct {
	text   []byte
	policy string // what the browser may do with it: run its own script, and ask for its own view
}

// newPage is the dashboard.
func newPage(title string) *document {
	var script strings.Builder
	words, err := json.Marshal(record.Words()) // it escapes what would end a script
	if err != nil {
		panic(err) // it is in the program
	}
	fmt.Fprintf(&script, "\"use strict\";\n(() => {\nconst WORDS = %s;\n", words) // in a function: names of the page's own would else be the window's
	for _, name := range scripts {
		script.WriteString(read(name))
	}
	return newDocument(read("page.html"), title, script.String()+"})();\n")
}

// newNotice is the page for a browser that is not admitted. It says why, and what admits it.
func newNotice(title, why string) *document {
	return newDocument(strings.ReplaceAll(read("notice.html"), "{{why}}", why), title, "")
}

// newDocument puts the style and the script into a page. The policy names their
// hashes, so nothing else that may find its way into the page is run; and nothing can
// be made markup of by a script, for that takes a trusted type, of which there is none.
func newDocument(text, title, script string) *document {
	style := read("style.css")
	text = strings.NewReplacer("{{title}}", html.EscapeString(title), "{{style}}", style, "{{script}}", script).Replace(text)
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

// writeJSON writes what there is to see, or how to get there.
func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a figure that is no number
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, http.StatusOK, "application/json", body)
}

func send(w http.ResponseWriter, code int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body) // an error is the client's, which has gone
}

// read is one of the embedded files.
func read(name string) string {
	data, err := fs.ReadFile(files, "page/"+name)
	if err != nil {
		panic(err) // it is in the program
	}
	return string(data)
}

// hash names a script or a style in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

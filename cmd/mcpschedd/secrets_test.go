package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/mcptest"
)

// If a server prints its secrets when it crashes, or repeats its headers, they reach neither the
// model nor the statistics, the log or the output of check.
func TestSecretsOfServersAreNotTold(t *testing.T) {
	dir := t.TempDir()
	secrets := map[string]string{ // variable → value
		"DIES_URL":     "postgres://bob:correct-horse@db.example/x",
		"DIES_WORD":    `battery "staple" / + 12 % é`,
		"FROM_FILE":    "file-9f8e7d6c5b4a",
		"GITHUB_TOKEN": "inherited-0a1b2c3d",
		"DIES_KEY":     "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n",
	}
	t.Setenv("GITHUB_TOKEN", secrets["GITHUB_TOKEN"])
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		http.Error(w, "no: "+r.URL.String()+" "+credentials+" "+r.Header.Get("X-Key"), http.StatusInternalServerError)
	}))
	defer web.Close()
	headers := []string{"header-1a2b3c4d5e", "odd key 5f6a7b", "query-7b8c9d0e", "path-0e1f2a3b4c5d6e7f"}

	server := func(name, start string, leaks ...string) string { // few lines, so that the last lines of stderr have all
		o := mcptest.Options{Name: name, Start: start, Leaks: leaks}
		_, options, _ := strings.Cut(o.Env(), "=")
		return "[upstreams." + name + "]\ncommand = " + quoted(serverProgram) + "\nenv_file = \"env\"\n[upstreams." + name + ".env]\n" +
			"MCPSCHEDD_TEST_SERVER = " + quoted(options) + "\nDIES_URL = " + quoted(secrets["DIES_URL"]) + "\nDIES_WORD = " + quoted(secrets["DIES_WORD"]) + "\nDIES_KEY = " + quoted(secrets["DIES_KEY"]) + "\n"
	}
	files := map[string]string{
		"env": "FROM_FILE=" + secrets["FROM_FILE"] + "\n",
		"c.toml": "[server]\nstate_dir = \"state\"\nstartup_wait = \"10ms\"\ndrain_timeout = \"20s\"\n[log]\nlevel = \"debug\"\n" +
			server("born", "die", "DIES_URL", "DIES_WORD", "FROM_FILE") + server("dies", "", "GITHUB_TOKEN", "DIES_KEY") +
			"[upstreams.lost]\ncommand = \"no-such-command\"\n[upstreams.web]\nurl = " + quoted(web.URL+"/"+headers[3]+"/mcp?key="+headers[2]) + "\n[upstreams.web.headers]\nAuthorization = " + quoted("Bearer "+headers[0]) + "\nX-Key = " + quoted(headers[1]) + "\n",
	}
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	config := filepath.Join(dir, "c.toml")

	clean := func(what, text string) {
		t.Helper()
		if what != "log" && strings.Contains(text, os.Getenv("PATH")) {
			t.Errorf("%s has the whole PATH", what)
		}
		for _, value := range headers {
			if strings.Contains(text, value) {
				t.Errorf("%s has %q", what, value)
			}
		}
		for name, value := range secrets {
			for i, written := range mcptest.Written(value) {
				if strings.Contains(text, written) {
					t.Errorf("%s has %s, way %d: %q", what, name, i, written)
				}
			}
			for line := range strings.Lines(value) {
				if half := strings.TrimSpace(line); !strings.HasPrefix(half, "-----") && strings.Contains(text, half[:len(half)*2/3]) {
					t.Errorf("%s has most of %s: %q", what, name, half[:len(half)*2/3])
				}
			}
		}
		if t.Failed() {
			t.Logf("%s:\n%s", what, text)
		}
	}

	serve := exec.Command(self, "serve", "--config", config)
	serve.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"born__echo"}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"dies__die","arguments":{}}}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"web__echo"}}
{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"lost__echo"}}
{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"mcpschedd://stats"}}
`)
	var stdout, log bytes.Buffer
	serve.Stdout, serve.Stderr = &stdout, &log
	if err := serve.Run(); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	clean("log", log.String())
	for line := range strings.Lines(log.String()) {
		if missing := strings.Contains(line, "not found in PATH"); strings.Contains(line, "server cannot be started") && strings.Contains(line, "path=") != missing {
			t.Errorf("want the PATH only if a command is not in it: %s", line)
		}
	}
	if !strings.Contains(log.String(), "path="+os.Getenv("PATH")) {
		t.Error("the log does not have the PATH in which the command was missing")
	}
	clean("raw output", stdout.String())
	texts := make(map[string]string) // id → text of its result
	for dec := json.NewDecoder(&stdout); ; {
		var answer struct {
			ID     json.Number
			Result struct {
				Content  []struct{ Text string }
				Contents []struct{ Text string }
			}
		}
		err := dec.Decode(&answer)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range append(answer.Result.Content, answer.Result.Contents...) {
			texts[answer.ID.String()] += c.Text
			clean("answer "+answer.ID.String(), c.Text)
		}
	}
	for id, want := range map[string]string{
		"1": "born to die", "2": "login as bob:[secret: configured]@host refused", "3": "status 500",
		"4": `command "no-such-command" not found in PATH`, "5": `"calls"`,
	} {
		if !strings.Contains(texts[id], want) {
			t.Errorf("answer %s: got %q, want %q in it", id, texts[id], want)
		}
	}

	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--connect", "--config", config}, &out, &errs); code != exitFailed {
		t.Errorf("check: got exit code %d, want %d", code, exitFailed)
	}
	clean("check", out.String())
	clean("check's errors", errs.String())
	if !strings.Contains(out.String(), "born to die") {
		t.Errorf("check: got %s, want the last lines of the server that crashed", out.String())
	}
}

// quoted returns a string as TOML.
func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

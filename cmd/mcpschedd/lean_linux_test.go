package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// If a lean program has to serve HTTP, or to share a store with replicas, the full program
// replaces it. If that is missing, the error says so. The test links the program, so only make
// soak runs it:
//
//	MCPSCHEDD_SOAK=1 go test -run TestFull ./cmd/mcpschedd
func TestFullTakesOver(t *testing.T) {
	if os.Getenv("MCPSCHEDD_SOAK") == "" {
		t.Skip("links the program: MCPSCHEDD_SOAK=1 runs it")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "mcpschedd")
	if out, err := exec.Command("go", "build", "-tags", "lean", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := scrapeOf(t, program); !strings.Contains(got, "lean") {
		t.Errorf("alone: got %s, want an error about the missing program", got)
	}
	file := filepath.Join(t.TempDir(), "replicas.toml")
	writeFile(t, file, "[dedup]\nstore = \"redis://127.0.0.1:1\"\n")
	alone := exec.Command(program, "serve", "--config", file)
	alone.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	if out, err := alone.CombinedOutput(); err == nil || !strings.Contains(string(out), "dedup.store: this program was built without it") {
		t.Errorf("alone, with a store of replicas: got %v and %s, want an error about the missing program", err, out)
	}
	copyFile(t, filepath.Join(dir, fullProgram), os.Args[0])
	if got := scrapeOf(t, program); !strings.Contains(got, "mcpschedd_build_info") {
		t.Errorf("beside %s: got %s, want metrics", fullProgram, got)
	}
	replicasShare(t, program)
}

// scrapeOf returns the response of a program that serves HTTP to a scrape.
func scrapeOf(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.Command(program, "serve", "--http", "127.0.0.1:0", "--auth", "none")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "HOME="+t.TempDir(), "XDG_STATE_HOME=", "XDG_CONFIG_HOME=")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		at := regexp.MustCompile(`url=(http://\S*)/mcp `).FindStringSubmatch(lines.Text())
		if at == nil {
			continue
		}
		r, err := http.Get(at[1] + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	t.Fatal("it does not serve HTTP")
	return ""
}

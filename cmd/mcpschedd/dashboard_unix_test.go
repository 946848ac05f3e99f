//go:build unix

package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// opener makes a script the program that opens browsers.
func opener(t *testing.T, bin, script string) {
	t.Helper()
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

// If there is no browser, a warning says so.
func TestDashboardCannotOpen(t *testing.T) {
	opener(t, t.TempDir(), "exit 3")
	said, stderr := io.Pipe()
	f := &dashboardFlags{open: true}
	if err := f.printAddress("http://127.0.0.1:1/dashboard?code=x", io.Discard, stderr); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(said).ReadString('\n'); !strings.Contains(line, "cannot open a browser: ") || !strings.Contains(line, "open: exit status 3") {
		t.Errorf("got %q, %v", line, err)
	}
	interrupted := exec.Command("sh", "-c", "kill -INT $$")
	if err := interrupted.Start(); err != nil {
		t.Fatal(err)
	}
	if err := failure(interrupted); err != nil {
		t.Errorf("after Ctrl-C: got %v", err)
	}
}

// With --open the address is passed to the program that opens browsers.
func TestDashboardOpens(t *testing.T) {
	bin := t.TempDir()
	opened := filepath.Join(bin, "opened")
	if err := syscall.Mkfifo(opened, 0o600); err != nil {
		t.Fatal(err)
	}
	opener(t, bin, `echo "$1" >`+opened)
	var stdout, stderr bytes.Buffer
	f := &dashboardFlags{open: true}
	if err := f.printAddress("http://127.0.0.1:1/dashboard?code=x", &stdout, &stderr); err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, %s", err, &stderr)
	}
	if text, err := os.ReadFile(opened); err != nil || string(text) != stdout.String() { // blocks until the program has written it
		t.Errorf("opened %q, %v, want %q", text, err, &stdout)
	}
}

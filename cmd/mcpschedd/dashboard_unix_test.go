//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// With --open the address is passed to the program that opens browsers.
func TestDashboardOpens(t *testing.T) {
	bin := t.TempDir()
	opened := filepath.Join(bin, "opened")
	if err := syscall.Mkfifo(opened, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$1\" >"+opened+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	f := &dashboardFlags{open: true}
	if err := f.printAddress("http://127.0.0.1:1/dashboard?code=x", &stdout, &stderr); err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, %s", err, &stderr)
	}
	if text, err := os.ReadFile(opened); err != nil || string(text) != stdout.String() { // blocks until the program has written it
		t.Errorf("opened %q, %v, want %q", text, err, &stdout)
	}
}

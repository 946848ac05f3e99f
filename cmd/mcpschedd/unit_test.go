package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// unitText is what is printed for odd paths.
func unitText(t *testing.T, system string) []byte {
	t.Helper()
	cmd := exec.Command("mcpschedd", "daemon", "--unit", system, "--config", "/etc/a <b> & %h $c.toml")
	cmd.Env = append(os.Environ(), `XDG_STATE_HOME=/state "of" %u`)
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestUnitOfSystemd(t *testing.T) {
	text := unitText(t, "systemd")
	for _, want := range []string{
		`" "daemon" "--stay" "--config" "/etc/a <b> & %%h $$c.toml"` + "\n", `Environment="XDG_STATE_HOME=/state \"of\" %%u"` + "\n",
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("got\n%s\nwant in it %s", text, want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "mcpschedd.service")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(analyze, "--user", "verify", file)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestUnitOfLaunchd(t *testing.T) {
	text := unitText(t, "launchd")
	var got []string
	for in := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if words, ok := token.(xml.CharData); ok && len(bytes.TrimSpace(words)) > 0 {
			got = append(got, string(words))
		}
	}
	i := slices.Index(got, "daemon")
	if i < 1 || !slices.Equal(got[i+1:i+4], []string{"--stay", "--config", "/etc/a <b> & %h $c.toml"}) || !slices.Contains(got, `/state "of" %u`) {
		t.Errorf("got %q", got)
	}
}

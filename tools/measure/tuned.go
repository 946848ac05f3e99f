package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"mcpschedd/internal/replay"
)

// tuned prints what tune --write from the training part gives on the other part, against the
// built-in defaults, and what having learned from it gives, against a cold start: by the
// commands themselves.
func tuned(w io.Writer, o options, set string) error {
	dir, err := os.MkdirTemp("", "measure")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	classes, err := os.ReadFile(filepath.Join(o.dir, "traces", asConfigured().classes))
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(config, classes, 0o600); err != nil {
		return err
	}
	train, bench := filepath.Join(o.dir, "traces", set+".train.jsonl.gz"), filepath.Join(o.dir, "traces", set+".bench.jsonl.gz")
	run := func(arguments ...string) ([]byte, error) {
		c := exec.Command(o.tuned, append(arguments, "--config", config)...)
		c.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		out, err := c.Output()
		if failed, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%s: %w: %s", arguments[0], err, failed.Stderr)
		}
		return out, err
	}
	fmt.Fprintf(w, "\n%s, at the defaults\n%-24s issued  used  accuracy  coverage  hidden ms  stale\n", set, "")
	for _, arm := range []struct {
		name      string
		tune      bool
		arguments []string
	}{
		{"static", false, []string{"--policy", "static"}},
		{"static, tuned", true, []string{"--policy", "static"}},
		{"learned, cold", false, []string{"--policy", "learned"}},
		{"learned, warm", false, []string{"--policy", "learned", "--train", train}},
	} {
		if arm.tune {
			if _, err := run("tune", "--write", train); err != nil {
				return err
			}
		} else if err := os.RemoveAll(filepath.Join(dir, "tuned.toml")); err != nil {
			return err
		}
		out, err := run(append([]string{"replay", "--json", bench}, arm.arguments...)...)
		if err != nil {
			return err
		}
		var r replay.Report
		if err := json.Unmarshal(out, &r); err != nil {
			return err
		}
		fmt.Fprintf(w, "%-24s %-7d %-5d %-9.3f %-9.4f %-10d %d\n", arm.name, r.Issued, r.Used, r.Accuracy, r.Coverage, r.Hidden, r.Stale)
	}
	return nil
}

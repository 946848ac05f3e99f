package main

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// units maps a service manager to its unit for the daemon. The two %s are the command line and the
// environment.
var units = map[string]string{
	"systemd": `[Unit]
Description=mcpschedd, one MCP proxy for all clients of this user

[Service]
Type=exec
ExecStart=%s
%sRestart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
`,
	"launchd": `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>mcpschedd</string>
	<key>ProgramArguments</key>
	<array>
%s	</array>
	<key>EnvironmentVariables</key>
	<dict>
%s	</dict>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
</dict>
</plist>
`,
}

// systemdWord quotes a word of a command line in a unit.
func systemdWord(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(s) + `"`
}

// printUnit prints the unit for the daemon of a configuration. It sets what may differ from a
// login session: the configuration, and the XDG directories of state and configuration.
func printUnit(w io.Writer, system, file string) error {
	unit, known := units[system]
	if !known {
		return usage("--unit: want systemd or launchd, have %q", system)
	}
	program, err := installed()
	if err != nil {
		return err
	}
	line := []string{program, "daemon", "--stay"}
	if file = cmp.Or(file, os.Getenv("MCPSCHEDD_CONFIG")); file != "" {
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
		line = append(line, "--config", file)
	}
	var environment strings.Builder
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		switch value := os.Getenv(name); {
		case value == "":
		case system == "systemd":
			environment.WriteString("Environment=" + strings.ReplaceAll(systemdWord(name+"="+value), "$$", "$") + "\n")
		default:
			fmt.Fprintf(&environment, "\t\t<key>%s</key>\n\t\t<string>%s</string>\n", name, html.EscapeString(value))
		}
	}
	var command strings.Builder
	for i, word := range line {
		if system == "launchd" {
			command.WriteString("\t\t<string>" + html.EscapeString(word) + "</string>\n")
			continue
		}
		if i > 0 {
			command.WriteString(" ")
		}
		command.WriteString(systemdWord(word))
	}
	_, err = fmt.Fprintf(w, unit, command.String(), environment.String())
	return err
}

// installed returns the path of this program, preferably the link in PATH, which survives updates.
func installed() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if linked, err := exec.LookPath("mcpschedd"); err == nil && filepath.IsAbs(linked) {
		a, errA := os.Stat(linked)
		b, errB := os.Stat(self)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return linked, nil
		}
	}
	return self, nil
}

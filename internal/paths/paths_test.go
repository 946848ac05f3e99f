package paths_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/paths"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, filepath.Join(dir, "pipeline_config.toml")) // a cloned repository's file, which Search must not find
	write(t, filepath.Join(dir, "mcpschedd", "pipeline_config.toml"))
	flag, named := filepath.Join(dir, "flag.toml"), filepath.Join(dir, "named.toml")
	write(t, flag)
	write(t, named)
	xdg, home, empty := filepath.Join(dir, "xdg"), filepath.Join(dir, "home"), filepath.Join(dir, "empty")
	inXDG := filepath.Join(xdg, "mcpschedd", "pipeline_config.toml")
	inHome := filepath.Join(home, ".config", "mcpschedd", "pipeline_config.toml")
	inEmpty := filepath.Join(empty, "mcpschedd", "pipeline_config.toml")
	write(t, inXDG)
	write(t, inHome)

	for _, tt := range []struct {
		name, flag string
		env        map[string]string
		want       string
		found      bool
		err        string
	}{
		{name: "flag first", flag: flag, env: map[string]string{"MCPSCHEDD_CONFIG": named, "HOME": home}, want: flag, found: true},
		{name: "relative flag", flag: "flag.toml", want: flag, found: true},
		{name: "missing flag", flag: "none.toml", env: map[string]string{"HOME": home}, err: "none.toml"},
		{name: "variable", env: map[string]string{"MCPSCHEDD_CONFIG": named, "XDG_CONFIG_HOME": xdg}, want: named, found: true},
		{name: "spelling of the variable", env: map[string]string{"MCPSCHEDD_CONFIG": dir + "//home/.././named.toml"}, want: named, found: true},
		{name: "missing variable", env: map[string]string{"MCPSCHEDD_CONFIG": named + "x", "HOME": home}, err: "named.tomlx"},
		{name: "relative variable", env: map[string]string{"MCPSCHEDD_CONFIG": "named.toml"}, err: "want an absolute path"},
		{name: "xdg", env: map[string]string{"XDG_CONFIG_HOME": xdg, "HOME": home}, want: inXDG, found: true},
		{name: "missing in xdg", env: map[string]string{"XDG_CONFIG_HOME": empty, "HOME": home}, want: inEmpty},
		{name: "relative xdg", env: map[string]string{"XDG_CONFIG_HOME": ".", "HOME": home}, want: inHome, found: true},
		{name: "home", env: map[string]string{"HOME": home}, want: inHome, found: true},
		{name: "relative home", env: map[string]string{"HOME": "."}},
		{name: "nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, found, err := paths.Search(tt.flag, func(name string) string { return tt.env[name] })
			if got != tt.want || found != tt.found || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v, %v; want %q, %v, %q", got, found, err, tt.want, tt.found, tt.err)
			}
		})
	}
}

func TestStateDir(t *testing.T) {
	for _, tt := range []struct {
		name, configured string
		env              map[string]string
		want             string
	}{
		{"configured", "/s", map[string]string{"HOME": "/h"}, "/s"},
		{"spelling", "/s//t/../u/", nil, "/s/u"},
		{"xdg", "", map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/mcpschedd"},
		{"home", "", map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/mcpschedd"},
		{"none", "", nil, ""},
	} {
		got, err := paths.StateDir(tt.configured, func(name string) string { return tt.env[name] })
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

// Package paths finds a user's configuration file and state directory. It is apart from package
// config so that the small program, which runs for every client, links neither the schema nor the
// packages that it configures.
package paths

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
)

// Search returns the path of the configuration file, cleaned: flag if it is not "", else
// $MCPSCHEDD_CONFIG, an absolute path, else mcpschedd/pipeline_config.toml in $XDG_CONFIG_HOME or
// ~/.config. A file named by flag or $MCPSCHEDD_CONFIG must exist. If the last of these files does
// not exist, found is false and the built-in defaults apply. Search never looks in the working
// directory, because a cloned repository must not be able to start commands.
func Search(flag string, env func(string) string) (path string, found bool, err error) {
	switch {
	case flag != "":
		path, err = filepath.Abs(flag)
	case env("MCPSCHEDD_CONFIG") != "":
		if path = filepath.Clean(env("MCPSCHEDD_CONFIG")); !filepath.IsAbs(path) {
			err = fmt.Errorf("MCPSCHEDD_CONFIG: want an absolute path, have %q", path)
		}
	default:
		dir, err := userDir("XDG_CONFIG_HOME", ".config", env)
		if err != nil {
			return "", false, nil // without a home directory the defaults apply
		}
		path = filepath.Join(dir, "pipeline_config.toml")
		_, err = os.Stat(path)
		return path, !errors.Is(err, fs.ErrNotExist), nil
	}
	if err == nil {
		if _, err = os.Stat(path); err != nil {
			err = fmt.Errorf("config: %w", err)
		}
	}
	if err != nil {
		return "", false, err
	}
	return path, true, nil
}

// Locate returns the state directory, and the configuration file that [Search] finds. The file need
// not be valid. Both are cleaned: a daemon is found by a hash of them.
func Locate(flag string, env func(string) string) (stateDir, file string, err error) {
	file, found, err := Search(flag, env)
	if err == nil && found {
		stateDir, err = ConfiguredStateDir(file)
	}
	if err == nil {
		stateDir, err = StateDir(stateDir, env)
	}
	return stateDir, file, err
}

// MaxSize is the largest accepted configuration in bytes. It also bounds the recursion of the
// decoder, which has no limit of its own.
const MaxSize = 1 << 20

// Read returns the content of a configuration file, or its first MaxSize+1 bytes. The file may be a pipe
// that something is writing to.
func Read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else it would wait for a writer
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if info, _ := file.Stat(); err == nil && len(text) == 0 && info != nil && info.Mode()&fs.ModeNamedPipe != 0 {
		err = fmt.Errorf("read %s: nothing writes to this pipe", path)
	}
	return text, err
}

// ConfiguredStateDir returns [server] state_dir of a configuration, absolute, or "" if it is not set
// or the file is too large, no valid TOML, or of a later version. Package config reads the same for
// the daemon, which starts despite mistakes in the file.
func ConfiguredStateDir(path string) (string, error) {
	text, err := Read(path)
	if err != nil || len(text) > MaxSize {
		return "", err
	}
	var tree map[string]any // a struct would ignore the case of keys
	if _, err := toml.Decode(string(text), &tree); err != nil {
		return "", nil
	}
	if version, _ := tree["schema_version"].(int64); version > MaxEarlierVersion {
		return "", nil
	}
	server, _ := tree["server"].(map[string]any)
	if dir, _ := server["state_dir"].(string); dir != "" && !strings.ContainsRune(dir, 0) {
		return Absolute(dir, filepath.Dir(path)), nil
	}
	return "", nil
}

// MaxEarlierVersion is the last schema_version of the earlier format of the configuration, which
// comes from the tool of which this proxy took over the annotations. A later version cannot be read.
const MaxEarlierVersion = 4

// StateDir returns the state directory, cleaned: the configured one if it is not "", else mcpschedd in
// $XDG_STATE_HOME or ~/.local/state.
func StateDir(configured string, env func(string) string) (string, error) {
	if configured != "" {
		return filepath.Clean(configured), nil
	}
	return userDir("XDG_STATE_HOME", filepath.Join(".local", "state"), env)
}

// userDir returns $variable/mcpschedd, or HOME/below/mcpschedd if the variable is not set. As the
// XDG specification requires, it ignores a relative path in the variable.
func userDir(variable, below string, env func(string) string) (string, error) {
	if base := env(variable); filepath.IsAbs(base) {
		return filepath.Join(base, "mcpschedd"), nil
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home := env(name); filepath.IsAbs(home) {
			return filepath.Join(home, below, "mcpschedd"), nil
		}
	}
	return "", fmt.Errorf("neither %s nor HOME is an absolute path", variable)
}

// Absolute returns path, joined to dir if it is relative.
func Absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// WithoutLinks returns path with symbolic links resolved, so that one directory has one path, or path
// itself if they cannot be.
func WithoutLinks(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil && path != "" {
		return real
	}
	return path
}

// Within reports whether path is folder or below it. Both are absolute, or relative to one directory.
func Within(path, folder string) bool {
	below, err := filepath.Rel(folder, path)
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

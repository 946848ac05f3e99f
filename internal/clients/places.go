package clients

import "path/filepath"

// Names are the clients whose files [Places] knows.
var Names = []string{"claude", "cursor", "vscode"}

// Places are the files that a client keeps for its user, whether they exist or not; nil
// for a client that is not among [Names]. Files of projects are not among them: a cloned
// repository must not be able to name commands. env is os.Getenv outside tests.
func Places(client, goos, home string, env func(string) string) []string {
	switch client {
	case "claude":
		code := env("CLAUDE_CONFIG_DIR")
		if !filepath.IsAbs(code) {
			code = home
		}
		return []string{
			filepath.Join(code, ".claude.json"),
			filepath.Join(appData(goos, home, env), "Claude", "claude_desktop_config.json"),
		}
	case "cursor":
		return []string{filepath.Join(home, ".cursor", "mcp.json")}
	case "vscode":
		var all []string
		for _, product := range []string{"Code", "Code - Insiders", "VSCodium"} {
			user := filepath.Join(appData(goos, home, env), product, "User")
			all = append(all, filepath.Join(user, "mcp.json"), filepath.Join(user, "settings.json"))
		}
		return all
	}
	return nil
}

// appData is where programs with windows keep what is the user's.
func appData(goos, home string, env func(string) string) string {
	set, otherwise := "XDG_CONFIG_HOME", filepath.Join(home, ".config")
	switch goos {
	case "darwin":
		return filepath.Join(home, "Library", "Application Support")
	case "windows":
		set, otherwise = "APPDATA", filepath.Join(home, "AppData", "Roaming")
	}
	if dir := env(set); filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}

package daemon

import (
	"runtime"
	"slices"
	"strings"
)

// base lists variables that any program may need. On Windows their names are not case-sensitive.
var base = strings.Fields(`PATH HOME USER LOGNAME SHELL TERM LANG LANGUAGE TZ TMPDIR TMP TEMP
	XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR XDG_CONFIG_DIRS XDG_DATA_DIRS
	DISPLAY WAYLAND_DISPLAY XAUTHORITY DBUS_SESSION_BUS_ADDRESS
	HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
	SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
	LD_LIBRARY_PATH DYLD_LIBRARY_PATH NIX_SSL_CERT_FILE NIX_LD NIX_LD_LIBRARY_PATH
	SYSTEMROOT WINDIR SYSTEMDRIVE COMSPEC PATHEXT APPDATA LOCALAPPDATA USERPROFILE USERNAME USERDOMAIN HOMEDRIVE
	HOMEPATH PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) COMMONPROGRAMFILES NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE OS`)

// Base returns the variables of an environment that every server receives, and those with other given names.
func Base(environ []string, also ...string) []string {
	return filter(environ, func(name string) bool {
		return slices.Contains(base, name) || strings.HasPrefix(name, "LC_") || isIn(also, name)
	})
}

// isIn reports whether some names of variables include one.
func isIn(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name) })
}

// goVariables are the variables that the Go runtime reads.
var goVariables = []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK", "GORACE"}

// daemonEnv returns the environment of the daemon itself, without variables that clients may have with
// different values, since it serves all of them. Servers receive only the Base part.
func daemonEnv(environ []string) []string {
	return append(Base(environ), filter(environ, func(name string) bool {
		return slices.Contains(goVariables, name) || strings.HasPrefix(name, "OTEL_")
	})...)
}

func filter(environ []string, keep func(name string) bool) []string {
	out := []string{}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if runtime.GOOS == "windows" {
			name = strings.ToUpper(name)
		}
		if keep(name) {
			out = append(out, variable)
		}
	}
	return out
}

package demo

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Config is the configuration of the proxy, as a user would write it, with unscaled times.
//
//go:embed config.toml
var Config string

// times matches the values of keys that are times.
var times = regexp.MustCompile(`\b(\w+_(?:ms|ms_p50|s)) = ([0-9.]+)`)

// configuration returns [Config] for one run: with times divided by Speed, this executable as
// the servers' command, and dir as the state directory.
func (o Options) configuration(dir string) []byte {
	text := times.ReplaceAllStringFunc(Config, func(line string) string {
		key, value, _ := strings.Cut(line, " = ")
		unscaled, _ := strconv.ParseFloat(value, 64) // the pattern matches only numbers
		return fmt.Sprintf("%s = %f", key, unscaled/o.Speed)
	})
	server := fmt.Sprintf("command = %s\nenv = { %s = %q }", jsonrpc.Marshal(o.Executable), speedVariable, o.speed())
	text = strings.ReplaceAll(text, `command = "mcpschedd"`, server)
	return fmt.Appendf(nil, "[server]\nstate_dir = %s\n\n%s", jsonrpc.Marshal(dir), text)
}

func (o Options) speed() string { return strconv.FormatFloat(o.Speed, 'g', -1, 64) }

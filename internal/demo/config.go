package demo

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Config is the configuration of the proxy, in times of life: what its user would have to
// write.
//
//go:embed config.toml
var Config string

// times are the values whose key says that they are a time.
var times = regexp.MustCompile(`\b(\w+_(?:ms|ms_p50|s)) = ([0-9.]+)`)

// configuration is [Config] for one run: its times divided like those of the servers, which
// are this executable, and with its state in dir.
func (o Options) configuration(dir string) []byte {
	text := times.ReplaceAllStringFunc(Config, func(line string) string {
		key, value, _ := strings.Cut(line, " = ")
		life, _ := strconv.ParseFloat(value, 64) // the pattern is of numbers
		return fmt.Sprintf("%s = %f", key, life/o.Speed)
	})
	server := fmt.Sprintf("command = %s\nenv = { %s = %q }", jsonrpc.Marshal(o.Executable), speedVariable, o.speed())
	text = strings.ReplaceAll(text, `command = "mcpschedd"`, server)
	return fmt.Appendf(nil, "[server]\nstate_dir = %s\n\n%s", jsonrpc.Marshal(dir), text)
}

func (o Options) speed() string { return strconv.FormatFloat(o.Speed, 'g', -1, 64) }

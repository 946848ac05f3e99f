package demo

import (
	_ "embed"
	"strings"

	"github.com/BurntSushi/toml"
)

// Config is the configuration of the proxy, in times of life: what its user
// would have to write.
//
//go:embed config.toml
var Config string

// configuration is [Config] for one run: its times divided like those of the
// upstreams, which are this executable, and with its state in dir.
func (o Options) configuration(dir string) ([]byte, error) {
	var c map[string]any
	if _, err := toml.Decode(Config, &c); err != nil {
		return nil, err
	}
	quicken(c, o.Speed)
	c["server"] = map[string]any{"state_dir": dir}
	for _, u := range c["upstreams"].(map[string]any) {
		u := u.(map[string]any)
		u["command"], u["env"] = o.Executable, map[string]any{speedVariable: o.speed()}
	}
	return toml.Marshal(c)
}

// quicken divides every number whose key says that it is a time.
func quicken(c map[string]any, speed float64) {
	for key, v := range c {
		switch v := v.(type) {
		case int64:
			if timed(key) {
				c[key] = float64(v) / speed
			}
		case float64:
			if timed(key) {
				c[key] = v / speed
			}
		case map[string]any:
			quicken(v, speed)
		case []map[string]any:
			for _, e := range v {
				quicken(e, speed)
			}
		}
	}
}

func timed(key string) bool {
	return strings.HasSuffix(key, "_ms") || strings.HasSuffix(key, "_ms_p50") || strings.HasSuffix(key, "_s")
}

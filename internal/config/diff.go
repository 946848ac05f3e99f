package config

import (
	"reflect"
	"slices"
)

// Diff names the changed keys that only a restart can bring into effect: those
// of [server] and [http]. Everything else is for a reload.
func Diff(old, new *Config) (restart []string) {
	changed := func(section string, x, y any) {
		a, b := reflect.ValueOf(x), reflect.ValueOf(y)
		for key, f := range fields(a.Type()) {
			if !reflect.DeepEqual(a.FieldByIndex(f.Index).Interface(), b.FieldByIndex(f.Index).Interface()) {
				restart = append(restart, join(section, key))
			}
		}
	}
	changed("server", old.Server, new.Server)
	changed("http", old.HTTP, new.HTTP)
	slices.Sort(restart)
	return restart
}

package config_test

import (
	"testing"
	"time"

	"mcpschedd/internal/config"
)

func TestBytes(t *testing.T) {
	for _, tt := range []struct {
		text, print string
		want        config.Bytes // -1: an error
	}{
		{"0", "0", 0},
		{"512", "512B", 512},
		{"1024", "1KiB", 1024},
		{"64MiB", "64MiB", 64 << 20},
		{" 64 mib ", "64MiB", 64 << 20},
		{"1.5GiB", "1536MiB", 3 << 29},
		{"2GB", "1953125KiB", 2e9},
		{"3kb", "3KB", 3000},
		{"7B", "7B", 7},
		{"0.5B", "", -1},
		{"-1", "", -1},
		{"", "", -1},
		{"MiB", "", -1},
		{"64M", "", -1},
		{"nan", "", -1},
		{"inf", "", -1},
		{"9000000TiB", "", -1},
	} {
		var got config.Bytes
		err := got.UnmarshalText([]byte(tt.text))
		if tt.want == -1 {
			if err == nil {
				t.Errorf("%q: got %d, want an error", tt.text, got)
			}
			continue
		}
		if err != nil || got != tt.want || got.String() != tt.print {
			t.Errorf("%q: got %d (%v), %v; want %d (%s)", tt.text, got, got, err, tt.want, tt.print)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "1.5s": 1500 * time.Millisecond, "2h30m": 150 * time.Minute, "-1s": -1, "5": -1, "": -1, "1 s": -1} {
		var got config.Duration
		err := got.UnmarshalText([]byte(text))
		if (err != nil) != (want == -1) || err == nil && time.Duration(got) != want {
			t.Errorf("%q: got %v, %v; want %v (-1: an error)", text, got, err, want)
		}
	}
}

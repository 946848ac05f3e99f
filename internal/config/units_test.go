package config_test

import (
	"testing"
	"time"

	"mcpschedd/internal/config"
)

func TestSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64 // -1: an error
	}{
		{"0", 0},
		{"512", 512},
		{"1024", 1024},
		{"64MiB", 64 << 20},
		{" 64 mib ", 64 << 20},
		{"1.5GiB", 3 << 29},
		{"2GB", 2e9},
		{"3kb", 3000},
		{"7B", 7},
		{"0.5B", -1},
		{"-1", -1},
		{"", -1},
		{"MiB", -1},
		{"64M", -1},
		{"nan", -1},
		{"inf", -1},
		{"9000000TiB", -1},
	} {
		got, ok := config.ParseSize(tt.text)
		if ok != (tt.want != -1) || ok && got != tt.want {
			t.Errorf("%q: got %d, %v; want %d (-1: an error)", tt.text, got, ok, tt.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "1.5s": 1500 * time.Millisecond, "2h30m": 150 * time.Minute, "2562047h": 87_600 * time.Hour, "-1s": -1, "5": -1, "": -1, "1 s": -1} {
		c, err := config.Default().Parse("f", []byte("daemon.idle = \""+text+"\""))
		if (err != nil) != (want == -1) || err == nil && c.Daemon.Idle != want {
			t.Errorf("%q: got %v; want %v (-1: an error)", text, err, want)
		}
	}
}

//go:build !lean

package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mcpschedd/internal/config"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// together is the shared store of replicas in a test.
type together struct {
	kept map[string][]byte
	down error // nil if it is reachable
}

func (s *together) update(_ context.Context, name string, next func([]byte) ([]byte, error)) error {
	if s.down != nil {
		return s.down
	}
	text, err := next(s.kept[name])
	if err == nil {
		s.kept[name] = text
	}
	return err
}

// Replicas with the same rules have what any of them has learned of a server, and no values of
// another replica's sessions.
func TestLearnedByReplicas(t *testing.T) {
	s := &together{kept: make(map[string][]byte)}
	replica := func(key string) speculate.Storage {
		return sharedLearned(s.update, func() string { return key }, nil)
	}
	// keep adds to a replica's stored state of the server and of values, and returns the state
	// that was stored before.
	keep := func(r speculate.Storage, server, values string) (given string) {
		t.Helper()
		err := r(func(stored speculate.State) (speculate.State, error) {
			given = string(stored.Server) + string(stored.Values)
			return speculate.State{Server: append(stored.Server, server...), Values: append(stored.Values, values...)}, nil
		})
		if err != nil && !errors.Is(err, s.down) {
			t.Fatal(err)
		}
		return given
	}
	want := func(what, got string, has, hasNot []string) {
		t.Helper()
		for _, part := range has {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q, want %q in it", what, got, part)
			}
		}
		for _, part := range hasNot {
			if strings.Contains(got, part) {
				t.Errorf("%s: got %q, want no %q in it", what, got, part)
			}
		}
	}
	a, b := replica("same"), replica("same")
	keep(a, "edge ", "constant ")
	want("a replica with the same rules", keep(b, "latency ", "other "), []string{"edge"}, []string{"constant"})
	want("the first one again", keep(a, "", ""), []string{"edge", "latency", "constant"}, []string{"other"})
	want("one with other rules", keep(replica("differ"), "", ""), nil, []string{"edge", "latency"})
	for name, text := range s.kept {
		want(name, string(text), nil, []string{"constant", "other"})
	}

	s.down = errors.New("cut off")
	keep(b, "lost ", "")
	want("a replica that begins while it is cut off", keep(replica("same"), "", ""), nil, []string{"edge"})
	s.down, s.kept = nil, make(map[string][]byte)
	want("a store that was emptied", keep(b, "", ""), []string{"edge", "latency", "other"}, []string{"lost"})
	want("the others then", keep(replica("same"), "", ""), []string{"edge", "latency"}, []string{"other"})
}

// A replica that is partitioned when it starts continues with its own copy.
func TestLearnedByReplicaCutOff(t *testing.T) {
	s := &together{down: errors.New("cut off")}
	own := speculate.State{Server: []byte("edge")}
	r := sharedLearned(s.update, func() string { return "key" }, func(merge func(speculate.State) (speculate.State, error)) (err error) {
		next, err := merge(own)
		if err == nil {
			own = next
		}
		return err
	})
	merge := func(stored speculate.State) (speculate.State, error) {
		if !strings.Contains(string(stored.Server), "edge") {
			t.Errorf("got %q, want the copy", stored.Server)
		}
		return speculate.State{Server: append(stored.Server, '+')}, nil
	}
	if err := r(merge); err != nil || string(own.Server) != "edge+" {
		t.Errorf("at first: %v, kept %q", err, own.Server)
	}
	if err := r(merge); !errors.Is(err, s.down) || string(own.Server) != "edge+" {
		t.Errorf("later: got %v, stored %q; want it stored once the store is reachable", err, own.Server)
	}
}

// Replicas share what they learn of a server only for the same principal and under the same rules.
func TestLearnedAs(t *testing.T) {
	server := config.Upstream{URL: "https://wiki.example/mcp", Headers: config.Secrets{"Authorization": "Bearer a"}}
	rules := func(tools ...valuemodel.Rule) *config.Config { return &config.Config{Tools: tools} }
	as := learnedKey(rules(valuemodel.Rule{Pattern: "wiki/get"}), "wiki", server)
	other := server
	other.Headers = config.Secrets{"Authorization": "Bearer b"}
	no := false
	for what, got := range map[string]string{
		"another tool's rule": learnedKey(rules(valuemodel.Rule{Pattern: "wiki/put"}), "wiki", server),
		"another rule":        learnedKey(rules(valuemodel.Rule{Pattern: "wiki/get", Layer: valuemodel.Layer{Speculate: &no}}), "wiki", server),
		"another principal":   learnedKey(rules(valuemodel.Rule{Pattern: "wiki/get"}), "wiki", other),
		"another name":        learnedKey(rules(valuemodel.Rule{Pattern: "wiki/get"}), "w", server),
	} {
		if got == as {
			t.Errorf("the key does not depend on %s", what)
		}
	}
	if got := learnedKey(rules(valuemodel.Rule{Pattern: "wiki/get", Source: "/elsewhere.toml:3"}), "wiki", server); got != as {
		t.Error("the key depends on the position of a rule")
	}
}

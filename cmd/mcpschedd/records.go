package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/front"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/secret"
	"mcpschedd/internal/state"
)

const (
	eventsFolder = "events"   // directory of event logs, in the state directory
	hashKeyFile  = "hash-key" // key of the hashes in event logs, kept apart from them: it would allow guessing the values
	keyBytes     = 32
)

// completeRecord adds to the options of the event log those that a reload does not change.
func (s *servedProxy) completeRecord(o *record.Options, transport string) {
	o.Dir, o.Scrub = s.dir.Path(eventsFolder), secret.JSON
	o.Begin = record.Event{
		Program: version(), Config: s.config.Path, Mode: s.config.Enrichment.Mode, Transport: transport, Dir: s.at.dir(),
	}
	var err error
	if o.Key, err = hashKey(s.dir); err != nil { // without it, hashes are comparable only within this process
		s.log.Warn("key for the hashes of the event log", "err", err)
	}
}

// hashKey returns the installation's hash key, and creates it if it is missing. A key of another
// length is corrupt and is not replaced, since later hashes would not match earlier ones.
func hashKey(dir state.Dir) ([]byte, error) {
	key, err := readOrCreate(dir, hashKeyFile, func() []byte {
		key := make([]byte, keyBytes)
		rand.Read(key)
		return key
	})
	if err == nil && len(key) != keyBytes {
		return nil, fmt.Errorf("%s: want a key of %d bytes, have %d; delete the file to create a new one", dir.Path(hashKeyFile), keyBytes, len(key))
	}
	return key, err
}

// export starts the exports that the OTEL_* variables configure. It calls srv only after the proxy
// has been created.
func export(ctx context.Context, log *slog.Logger, o *proxy.Options, srv func() *proxy.Server) (*record.OTLP, error) {
	t, err := record.StartOTLP(ctx, version(), func() record.Stats { return srv().Report() }, log)
	if t == nil {
		return nil, err
	}
	o.Trace = t.Trace()
	o.Record.OnEvent = func(e record.Event) {
		if e.Kind == record.Prefetch {
			kept := e // a copy, so that other events do not escape to the heap
			t.Prefetch(&kept)
		}
	}
	return t, nil
}

// pages returns what is served beside MCP over HTTP: /metrics, /stats and the dashboard.
func pages(srv *proxy.Server, token string) []front.Page {
	stats := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(srv.View().Stats) // fails only if the client has disconnected
	}
	all := []front.Page{
		{Pattern: "GET /metrics", Handler: record.Metrics(srv.Report, version())},
		{Pattern: "GET /stats", Handler: http.HandlerFunc(stats)},
	}
	page := dashboard.Handler(srv.View, token)
	for _, path := range []string{"/dashboard", "/dashboard/view.json", dashboard.CodePath} {
		all = append(all, front.Page{Pattern: path, Handler: page, OwnAuth: true})
	}
	return all
}

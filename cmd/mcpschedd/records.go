package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"

	"mcpschedd/internal/config"
	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/secret"
	"mcpschedd/internal/state"
)

const (
	eventsFolder = "events"   // where in the state folder the event logs are
	hashKey      = "hash-key" // the key of the hashes in them, which does not go with them: with it, hashes can be tried
	keyBytes     = 32
)

// recordOptions say how the record is kept.
func recordOptions(at workplace, c *config.Config, dir state.Dir, transport string, log *slog.Logger) record.Options {
	o := record.Options{
		Dir: dir.Path(eventsFolder), Full: c.Telemetry.RecordArguments == "full", Off: c.Telemetry.Events == "off", Scrub: secret.JSON,
		Begin: record.Event{
			Program: version(), Config: c.Path, Mode: c.Enrichment.Mode, Transport: transport, Dir: at.dir(),
		},
	}
	for _, u := range c.Upstreams {
		if u.Enabled {
			o.Begin.Upstreams = append(o.Begin.Upstreams, u.Name)
		}
	}
	var err error
	if o.Key, err = key(dir); err != nil { // without a key hashes are good for this process alone
		log.Warn("key for the hashes of the event log", "err", err)
	}
	return o
}

// key is the installation's, which is made if it is missing. One of another length was not
// made here, and is not replaced: earlier hashes could not be compared with later ones.
func key(dir state.Dir) (key []byte, err error) {
	if key, err = dir.Read(hashKey); errors.Is(err, fs.ErrNotExist) {
		err = dir.Update(hashKey, func(old []byte) ([]byte, error) {
			if key = old; len(key) == 0 {
				key = make([]byte, keyBytes)
				rand.Read(key)
			}
			return key, nil
		})
	}
	if err == nil && len(key) != keyBytes {
		return nil, fmt.Errorf("%s: want a key of %d bytes, have %d; delete the file to create a new one", dir.Path(hashKey), keyBytes, len(key))
	}
	return key, err
}

// full is this program with all its libraries. One that is built lean gives way to it where it
// needs one of those that it lacks: of Prometheus, OpenTelemetry and Valkey, which take 6 MiB of
// each process, used or not.
const full = "mcpschedd-full"

// becomeExporting has the full program take the place of this one where that serves HTTP, and so
// metrics, or the environment asks for an export.
func becomeExporting(overHTTP bool) {
	if !record.Exports && (overHTTP || record.ExportRequested(os.Getenv)) {
		become(full)
	}
}

// export begins what the OTEL_* variables ask for. stats is called when the proxy runs.
func export(ctx context.Context, log *slog.Logger, o *proxy.Options, srv func() *proxy.Server) (*record.OTLP, error) {
	t, err := record.StartOTLP(ctx, record.OTLPOptions{Env: os.Getenv, Version: version(), Log: log, Stats: func() record.Stats { return srv().Report() }})
	if t == nil {
		return nil, err
	}
	o.Trace = t.Trace()
	o.Record.Each = func(e record.Event) {
		if e.Kind == record.Prefetch {
			kept := e // else every event would be on the heap
			t.Prefetch(&kept)
		}
	}
	return t, nil
}

// mount adds to the HTTP end what shows the record.
func mount(srv *proxy.Server, token string) {
	srv.Mount("GET /metrics", record.Metrics(srv.Report, version()), false)
	srv.Mount("GET /stats", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(srv.ReportAll()) // a client that does not read it is none to tell about
	}), false)
	page := dashboard.Handler(dashboard.Options{View: srv.View, Token: token, Since: "since it began"})
	srv.Mount("/dashboard", page, true)
	srv.Mount("/dashboard/view.json", page, true)
	srv.Mount(dashboard.CodePath, page, true)
}

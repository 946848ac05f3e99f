package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/events"
	"mcpschedd/internal/metrics"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/secret"
	"mcpschedd/internal/state"
	"mcpschedd/internal/telemetry"
	"mcpschedd/internal/tracing"
)

const (
	eventsFolder = "events"   // where in the state folder the event logs are
	hashKey      = "hash-key" // the key of the hashes in them, which does not go with them
)

// record says how the record is kept.
func record(c *config.Config, dir state.Dir, transport string, log *slog.Logger) events.Options {
	o := events.Options{
		Dir: dir.Path(eventsFolder), Full: c.Telemetry.RecordArguments == "full", Scrub: secret.JSON,
		Begin: events.Event{
			Program: version(), Config: c.Path, Mode: c.Enrichment.Mode, Transport: transport, Dir: workingDir(),
		},
	}
	for _, u := range c.Upstreams {
		if u.Enabled {
			o.Begin.Upstreams = append(o.Begin.Upstreams, u.Name)
		}
	}
	var err error
	if o.Key, err = events.Key(dir.Path(hashKey), dir.Path(eventsFolder+"/key")); err != nil { // without a key hashes are good for this process alone
		log.Warn("key for the hashes of the event log", "err", err)
	}
	return o
}

// trace begins what the OTEL_* variables ask for. stats is called when the proxy runs.
func trace(ctx context.Context, log *slog.Logger, o *proxy.Options, srv func() *proxy.Server) (*tracing.Tracer, error) {
	t, err := tracing.Start(ctx, tracing.Options{Version: version(), Log: log, Stats: func() telemetry.Stats { return srv().Report() }})
	if t == nil {
		return nil, err
	}
	o.Trace = func(traceparent, tracestate, tool string, at time.Time) (parent, state string, end func(*events.Event)) {
		span := t.Call(traceparent, tracestate, tool, at)
		return span.Traceparent(), span.Tracestate(), span.End
	}
	o.Record.Each = func(e *events.Event) {
		if e.Kind == events.Prefetch {
			t.Prefetch(e)
		}
	}
	return t, nil
}

// mount adds to the HTTP end what shows the record.
func mount(srv *proxy.Server, token string) {
	srv.Mount("GET /metrics", metrics.Handler(metrics.Options{Stats: srv.Report, Latencies: srv.Latencies, Version: version()}), false)
	srv.Mount("GET /stats", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(srv.Report()) // a client that does not read it is none to tell about
	}), false)
	page := dashboard.Handler(dashboard.Options{View: srv.View, Token: token})
	srv.Mount("/dashboard", page, true)
	srv.Mount("/dashboard/view.json", page, true)
	srv.Mount(dashboard.CodePath, page, true)
}

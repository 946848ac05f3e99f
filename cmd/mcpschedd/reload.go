package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"mcpschedd/internal/config"
)

// watch calls applyConfig with each new content of the configuration file, or its error, until ctx
// ends. Keys that need a restart keep the values of the start, and are logged while the file has others.
// For read see [config.Watch].
func (s *servedProxy) watch(ctx context.Context, read <-chan chan<- struct{}, applyConfig func(*config.Config, error)) {
	if s.config.Path == "" {
		return
	}
	start, now := s.config, s.config
	err := config.Watch(ctx, now, read, func(next *config.Config, err error) {
		if err == nil && next.Log != now.Log {
			if next.Log.File != now.Log.File {
				s.log.Info("log moved", "path", cmp.Or(next.Log.File, "stderr and the state directory"))
			}
			err = s.output.apply(next.Log)
		}
		if err != nil {
			s.log.Error("configuration not reloaded; the previous one stays in force", "err", err)
			applyConfig(nil, err)
			return
		}
		for _, w := range next.Warnings {
			s.log.Warn(w.String())
		}
		if keys := config.RestartKeys(start, next); len(keys) > 0 {
			s.log.Warn("changed, but needs a restart", "keys", strings.Join(keys, ", "))
		}
		now = next
		applied := *next
		applied.Server, applied.HTTP, applied.Dedup.Store = start.Server, start.HTTP, start.Dedup.Store
		applyConfig(&applied, nil)
		saveLastGood(next, s.dir, s.log)
		s.log.Info("configuration reloaded", "path", next.Path)
	})
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		s.log.Warn("configuration not watched", "err", err)
	}
}

// applyConfig applies a new configuration to the proxy, or reports err to it.
func (s *servedProxy) applyConfig(next *config.Config, err error) {
	if s.srv.Reject(err); err == nil {
		s.srv.Apply(optionsAt(s.at, next, s.dir, s.log))
	}
}

package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"mcpschedd/internal/config"
)

// watch calls applyConfig with each new content of the configuration file, or its error, and again when
// an env file of the workplaces changes, until ctx ends. Keys that need a restart keep the values of the
// start, and are logged while the file has others. For rescan see [config.Watch].
func (s *servedProxy) watch(ctx context.Context, workplaces func() []workplace, rescan <-chan struct{}, applyConfig func(*config.Config, error)) {
	if s.config.Path == "" {
		return
	}
	start, now := s.config, s.config
	var rejected error // mistakes in the file
	if s.mistakes != nil {
		rejected = s.mistakes
	}
	files := func() (all []string) {
		for _, at := range workplaces() {
			all = append(all, now.EnvFiles(at.lookup)...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	apply := func() { applyConfig(now, rejected) } // connects only those upstreams again that have other settings or variables now
	err := config.Watch(ctx, now, files, rescan, apply, func(next *config.Config, err error) {
		if err == nil && next.Log != now.Log {
			if next.Log.File != now.Log.File {
				s.log.Info("log moved", "path", cmp.Or(next.Log.File, "stderr and the state directory"))
			}
			err = s.output.apply(next.Log)
		}
		if err != nil {
			rejected = err
			if mistakes, ok := errors.AsType[*config.Error](err); ok && !slices.ContainsFunc(now.Upstreams, func(u config.Upstream) bool { return u.Enabled && u.Err == nil }) {
				if c := mistakes.Salvage(nil); len(c.Upstreams) > 0 { // as at the start, because no server would stay
					s.log.Error(withMistakes, "err", err)
					c.Log = now.Log
					c.KeepUntilRestart(start)
					now = c
					apply()
					return
				}
			}
			s.log.Error("configuration not reloaded; the previous one stays in force", "err", err)
			applyConfig(nil, err)
			return
		}
		for _, w := range next.Warnings {
			s.log.Warn(w.String())
		}
		if keys := next.KeepUntilRestart(start); len(keys) > 0 {
			s.log.Warn("changed, but needs a restart", "keys", strings.Join(keys, ", "))
		}
		now, rejected = next, nil
		apply()
		s.saveLastGood(next)
		s.log.Info("configuration reloaded", "path", next.Path)
	})
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		s.log.Warn("configuration not watched", "err", err)
	}
}

// applyConfig reports to the proxy the mistakes in the file, or nil, and applies next unless it is nil.
func (s *servedProxy) applyConfig(next *config.Config, err error) {
	if s.srv.Reject(err); next != nil {
		s.srv.Apply(proxyOptions(s.at, next, s.dir, s.log))
	}
}

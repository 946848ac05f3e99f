package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
)

// watch applies every new content of the configuration file while ctx lasts.
func (s *proxyProcess) watch(ctx context.Context) {
	s.watchFor(ctx, func() []*proxyProcess { return []*proxyProcess{s} })
}

// watchFor is watch for several proxies in one process.
func (s *proxyProcess) watchFor(ctx context.Context, proxies func() []*proxyProcess) {
	if s.written.Path == "" {
		return
	}
	now := s.written
	err := config.Watch(ctx, now, func(next *config.Config, err error) {
		if err == nil && next.Log != now.Log {
			if next.Log.File != now.Log.File {
				s.log.Info("the log goes on elsewhere", "path", cmp.Or(next.Log.File, "stderr"))
			}
			err = s.output.apply(next.Log)
		}
		if err != nil {
			s.log.Error("configuration not reloaded; the old one stays", "err", err)
			for _, p := range proxies() {
				p.srv.Reject(err)
			}
			return
		}
		s.reload(now, next, proxies())
		now = next
	}, toolProblems)
	if err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
		s.log.Warn("configuration not watched", "err", err)
	}
}

// reload puts a new configuration in force, but for what needs a restart, which is told.
func (s *proxyProcess) reload(now, next *config.Config, proxies []*proxyProcess) {
	for _, w := range next.Warnings {
		s.log.Warn(w.String())
	}
	if keys := config.Diff(now, next); len(keys) > 0 {
		s.log.Warn("changed, but needs a restart", "keys", keys)
	}
	applied := *next
	applied.Server, applied.HTTP = s.written.Server, s.written.HTTP // as they were at the start
	for _, p := range proxies {
		p.srv.Reject(nil)
		p.srv.Apply(inFolder(optionsAt(p.at, &applied, p.dir, p.log), next, p.folder))
	}
	keepGood(next, s.dir, s.log)
	s.log.Info("configuration reloaded", "path", next.Path)
}

// inFolder leaves out the upstreams that sessions in a folder do not have. They count when it
// is decided how tools are called, so that a client's rules hold in every folder.
func inFolder(o proxy.Options, c *config.Config, folder string) proxy.Options {
	all := len(o.Upstreams)
	o.Upstreams = slices.DeleteFunc(o.Upstreams, func(u proxy.Upstream) bool {
		return slices.ContainsFunc(c.Upstreams, func(u2 config.Upstream) bool { return u2.Name == u.Spec.Name && !u2.In(folder) })
	})
	o.Elsewhere = all - len(o.Upstreams)
	return o
}

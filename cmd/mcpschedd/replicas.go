//go:build !lean

package main

import (
	"fmt"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valkey"
)

// newCommon makes the store and the limits of a process, which it shares with other replicas
// where the configuration says so. A mistake there keeps the process from starting: the others
// would not learn of its writes.
func newCommon(o proxy.Options, c *config.Config, at workplace) (common *proxy.Common, end func(), err error) {
	if c.Dedup.Store == "" {
		common = proxy.NewCommon(o)
		return common, common.Close, nil
	}
	url, err := c.StoreURL(at.lookup)
	if err != nil {
		return nil, nil, misused{err}
	}
	peers, err := valkey.New(valkey.Options{URL: url, WriteSettle: o.Dedup.WriteSettle, Log: o.Log})
	if err != nil {
		return nil, nil, hinted{misused{fmt.Errorf("dedup.store: %w", err)}, "such as valkey://user:${VALKEY_PASSWORD}@host:6379"}
	}
	o.Dedup.Peers = peers
	common = proxy.NewCommon(o)
	peers.Count(common.Share)
	peers.Publish(common.Figures)
	common.ShareFigures(peers.Published)
	return common, func() { common.Close(); peers.Close() }, nil
}

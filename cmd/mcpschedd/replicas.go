//go:build !lean

package main

import (
	"context"
	"fmt"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
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
	peers.Publish(common.Figures)
	peers.OnRefused(common.Refused)
	common.ConnectReplicas(proxy.Replicas{
		Figures: peers.Published, Limits: peers.Take, PublishRefused: peers.PublishRefused,
		Learned: func(key func() string, own speculate.Storage) speculate.Storage {
			return keptTogether(peers.Update, key, own)
		},
	})
	peers.WatchCount(common.SetReplicas)
	return common, func() { common.Close(); peers.Close() }, nil
}

// keeper replaces what is kept under a name by what next makes of it.
type keeper func(ctx context.Context, name string, next func(old []byte) ([]byte, error)) error

// keptTogether keeps what belongs to a server with the other replicas under a key, and what its
// sessions used, with a copy of the rest, where own does. A replica that cannot reach the others
// begins with that copy; what it learns then is kept when it can.
func keptTogether(update keeper, key func() string, own speculate.Storage) speculate.Storage {
	if own == nil {
		own = speculate.InMemory()
	}
	begun := false
	return func(merge func(speculate.State) (speculate.State, error)) error {
		return own(func(stored speculate.State) (next speculate.State, err error) {
			as := key()
			if as == "" {
				return merge(stored)
			}
			ctx, cancel := context.WithTimeout(context.Background(), othersWithin)
			defer cancel()
			err = update(ctx, "learned:"+as, func(theirs []byte) ([]byte, error) {
				if theirs == nil {
					theirs = stored.Server
				}
				next, err = merge(speculate.State{Server: theirs, Values: stored.Values})
				return next.Server, err
			})
			if err != nil && !begun {
				next, err = merge(stored)
			}
			begun = begun || err == nil
			return next, err
		})
	}
}

// othersWithin is how long what is kept with other replicas is waited for: less than another
// process here waits for the file of the copy.
const othersWithin = time.Second

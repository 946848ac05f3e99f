//go:build !lean

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valkey"
)

// newCommon creates the cache and the limits of a process, shared with other replicas if dedup.store
// is set. A mistake in it prevents the start, since other replicas would not see this one's writes.
func newCommon(o proxy.Options, c *config.Config, at workplace) (common *proxy.Common, closeCommon func(), err error) {
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
		return nil, nil, hinted{misused{fmt.Errorf("dedup.store: %w", err)}, "such as " + storeExample}
	}
	o.Dedup.Peers = peers
	common = proxy.NewCommon(o)
	peers.PublishFigures(common.Figures)
	peers.OnLimited(common.Limited)
	common.ConnectReplicas(proxy.Replicas{
		Figures: peers.Figures, Limits: peers.Take, Problem: peers.Problem, PublishLimited: peers.PublishLimited,
		Learned: func(key func() string, own speculate.Storage) speculate.Storage {
			return sharedLearned(peers.Update, key, own)
		},
	})
	peers.WatchCount(common.SetReplicas)
	return common, func() { common.Close(); peers.Close() }, nil
}

// storeProblem finds a mistake in dedup.store, with which serve refuses to start.
func storeProblem(c *config.Config) error {
	url, err := c.StoreURL(os.LookupEnv)
	if url == "" || err != nil { // an unset variable is only missing here: see [config.Config.Unusable]
		return nil
	}
	if err := valkey.CheckURL(url); err != nil {
		return &config.Error{Problems: []config.Problem{c.Problem("dedup.store", "%v; want such as %s", err, storeExample)}}
	}
	return nil
}

const storeExample = "valkey://user:${VALKEY_PASSWORD}@host:6379"

// updateFunc replaces the value of a name with the one that next returns for the old value.
type updateFunc func(ctx context.Context, name string, next func(old []byte) ([]byte, error)) error

// sharedLearned stores a server's learned state in the replicas' server under key(), and keeps the
// values of sessions and a copy of the rest in own. A replica that cannot reach the server starts
// from the copy, and stores what it learns when it can.
func sharedLearned(update updateFunc, key func() string, own speculate.Storage) speculate.Storage {
	if own == nil {
		own = speculate.InMemory()
	}
	merged := false
	return func(merge func(speculate.State) (speculate.State, error)) error {
		return own(func(stored speculate.State) (next speculate.State, err error) {
			ctx, cancel := context.WithTimeout(context.Background(), updateTimeout)
			defer cancel()
			err = update(ctx, "learned:"+key(), func(theirs []byte) ([]byte, error) {
				if theirs == nil {
					theirs = stored.Server
				}
				next, err = merge(speculate.State{Server: theirs, Values: stored.Values})
				return next.Server, err
			})
			if err != nil && !merged {
				next, err = merge(stored)
			}
			merged = merged || err == nil
			return next, err
		})
	}
}

// updateTimeout limits the wait for the replicas' server. It is shorter than another local process
// waits for the lock of the copy.
const updateTimeout = time.Second

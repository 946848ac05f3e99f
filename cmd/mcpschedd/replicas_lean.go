//go:build lean

package main

import (
	"errors"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
)

// newCommon makes the store and the limits of a process, unless replicas share them: then the
// full program takes the place of this one.
func newCommon(o proxy.Options, c *config.Config, _ workplace) (common *proxy.Common, end func(), err error) {
	if c.Dedup.Store != "" {
		become(full)
		return nil, nil, hinted{errors.New("dedup.store: this program was built without it (-tags lean)"), "put " + full + " beside it"}
	}
	common = proxy.NewCommon(o)
	return common, common.Close, nil
}

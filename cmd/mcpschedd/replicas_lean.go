//go:build lean

package main

import (
	"errors"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
)

// newCommon creates the cache and the limits of a process. If replicas share them, it becomes the
// full program.
func newCommon(o proxy.Options, c *config.Config, _ workplace) (common *proxy.Common, closeCommon func(), err error) {
	if c.Dedup.Store != "" {
		become(fullProgram)
		return nil, nil, hinted{errors.New("dedup.store: this program was built without it (-tags lean)"), "put " + fullProgram + " beside it"}
	}
	common = proxy.NewCommon(o)
	return common, common.Close, nil
}

// storeProblem leaves the check of dedup.store to the full program, which has its parser.
func storeProblem(c *config.Config) error {
	if c.Dedup.Store != "" {
		become(fullProgram)
	}
	return nil
}

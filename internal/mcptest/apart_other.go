//go:build !unix

package mcptest

import "errors"

func leaveGroup() error { return errors.ErrUnsupported }

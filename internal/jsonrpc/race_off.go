//go:build !race

package jsonrpc

const checking = false

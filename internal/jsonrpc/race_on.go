//go:build race

package jsonrpc

// checking is on under the race detector, and so in all tests. What has been
// released is overwritten then, so that a reader of it is found out, and pipes are
// read and written by system calls that the detector knows.
const checking = true

//go:build race

package jsonrpc

// raceEnabled is set under the race detector. Released buffers are then overwritten, to
// expose a use after release, and pipes use system calls that the detector instruments.
const raceEnabled = true

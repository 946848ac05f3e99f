//go:build !linux

package upstream

import "os"

// enlarge does nothing: pipes grow by themselves, or not at all.
func enlarge(*os.File) {}

// reap waits for p to end, and calls before. The id of p is free for others then,
// but not soon used again; on Windows it is not what names the group.
func reap(p *os.Process, before func()) *os.ProcessState {
	state, _ := p.Wait()
	before()
	return state
}

package daemon

import "golang.org/x/sys/unix"

// peerOf returns the user id of the process at the other end of a socket.
func peerOf(fd int) (uid int, err error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}

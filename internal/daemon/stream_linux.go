package daemon

import (
	"fmt"
	"os"
	"syscall"

	"mcpschedd/internal/jsonrpc"
)

// sendStream makes the two pipes of a client's messages, sends the client its ends of them, and
// closes the connection. A socket would carry the messages as well, but Linux wakes its writer
// each time that the reader has read. Measured: through the socket the p50 at 1 KB of connect is
// 1.08 times as long (1.04 to 1.15 in three runs), and it takes 1.3 times the processor time.
//
// The daemon makes them, as a program that shares an end of ours could make that block.
func sendStream(c conn) (stream, error) {
	defer c.Close()
	in, theirOut, err := os.Pipe()
	if err != nil {
		return stream{}, err
	}
	defer theirOut.Close()
	theirIn, out, err := os.Pipe()
	if err != nil {
		in.Close()
		return stream{}, err
	}
	defer theirIn.Close()
	s := stream{jsonrpc.NewPipe(in), jsonrpc.NewPipe(out)}
	if _, _, err = c.WriteMsgUnix([]byte("\n"), syscall.UnixRights(int(theirIn.Fd()), int(theirOut.Fd())), nil); err != nil {
		s.close()
	}
	return s, err
}

// receiveStream is what the client does when the daemon calls sendStream.
func receiveStream(c conn) (stream, error) {
	defer c.Close()
	rights := make([]byte, syscall.CmsgSpace(2*4))
	_, n, _, _, err := c.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return stream{}, fmt.Errorf("daemon: %w", err)
	}
	var pipes []*jsonrpc.Pipe
	if messages, err := syscall.ParseSocketControlMessage(rights[:n]); err == nil && len(messages) == 1 {
		fds, _ := syscall.ParseUnixRights(&messages[0]) // none of what is no rights
		for _, fd := range fds {
			_ = syscall.SetNonblock(fd, true) // else it is read as a file is
			pipes = append(pipes, jsonrpc.NewPipe(os.NewFile(uintptr(fd), "daemon")))
		}
	}
	if len(pipes) != 2 {
		for _, p := range pipes {
			p.Close()
		}
		return stream{}, fmt.Errorf("daemon: want the ends of two pipes, have %d", len(pipes))
	}
	return stream{pipes[0], pipes[1]}, nil
}

// closeWrite tells the other end that nothing more comes.
func (s stream) closeWrite() error { return s.Out.Close() }

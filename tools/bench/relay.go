package main

import (
	"errors"
	"io"
	"os"
	"os/exec"

	"mcpschedd/tools/launch"
)

// copyBuffer is the capacity of a Linux pipe, so that one read empties a full pipe.
const copyBuffer = 64 << 10

func relayMain(args []string) error {
	in, out, err := launch.Stdio()
	if err != nil {
		return err
	}
	return relay(in, out, args)
}

// plainRelay is the role of a relay that leaves its standard streams as they are.
const plainRelay = "plainrelay"

func plainRelayMain(args []string) error { return relay(os.Stdin, os.Stdout, args) }

// relay starts a command, and copies in to its input and its output to out. It does not parse
// messages. No process between two pipes can cost less, so the proxy is compared with it.
func relay(in io.Reader, out io.Writer, command []string) error {
	child, err := startChild(command)
	if err != nil {
		return err
	}
	// This goroutine is not waited for: if the child ends first, it still blocks in a read that
	// only the end of the process interrupts.
	go func() {
		pump(child.stdin, in)
		child.stdin.Close()
	}()
	err = pump(out, child.stdout)
	return errors.Join(err, child.cmd.Wait())
}

// pump copies until from ends, by reads and writes alone. io.Copy would choose a system call by the
// type of the files, but the relay should be the same everywhere.
func pump(to io.Writer, from io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, copyBuffer))
	return err
}

// child is a started command with both its pipes, which the runtime polls.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
}

func startChild(command []string) (*child, error) {
	if len(command) == 0 {
		return nil, errors.New("no command to start")
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, stdin: stdin, stdout: stdout}, nil
}

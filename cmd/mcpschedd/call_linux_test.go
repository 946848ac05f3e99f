package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal, a tool's text has no control characters. Elsewhere it is not changed.
func TestResultOnATerminal(t *testing.T) {
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	result := []byte(`{"content":[{"type":"text","text":"\u001b[2Ja\tb"}]}`)
	if err := printResult(terminal, result, false); err != nil {
		t.Fatal(err)
	}
	shown, err := bufio.NewReader(screen).ReadString('\n')
	if err != nil || strings.Contains(shown, "\x1b") || !strings.HasPrefix(shown, "\ufffd[2Ja") {
		t.Errorf("on a terminal: got %q, %v", shown, err)
	}
	var file strings.Builder
	if err := printResult(&file, result, false); err != nil || file.String() != "\x1b[2Ja\tb\n" {
		t.Errorf("elsewhere: got %q, %v", file.String(), err)
	}
}

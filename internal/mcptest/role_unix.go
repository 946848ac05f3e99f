//go:build unix

package mcptest

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// roles are servers on stdio with one fault each. Each one exits within a minute.
var roles = map[string]func(){
	"echo": func() { serveRole(func(string) {}) },
	"crash": func() {
		serveRole(func(string) {
			fmt.Fprint(os.Stderr, "about to fail\nno line end")
			os.Exit(3)
		})
	},
	"suicide": func() {
		serveRole(func(string) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			linger()
		})
	},
	"usage": func() { fmt.Println("usage: server FILE") },
	"rubbish": func() {
		serveRole(func(id string) {
			fmt.Println("Server listening")
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"method":"ask","params":{"text":"` + "\t" + `"}}`) // an unreadable request is not an answer
			fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"params":`)
			fmt.Println(`[{"jsonrpc":"2.0"`)
			fmt.Print("\n\r\n", ` {"jsonrpc":"2.0","method":"note"} `, "\r\n17\n")
		})
	},
	"batch": func() {
		serveRole(func(id string) {
			fmt.Println(`[{"jsonrpc":"2.0","method":"note"}, 17, {"jsonrpc":"2.0","id":` + id + `,"result":{"batch":"` + "\xff" + `"}}]`)
		})
	},
	"broken": func() {
		serveRole(func(id string) { fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"result":{"text":"` + "\t" + `"}}`) })
	},
	"empty": func() {
		serveRole(func(id string) { fmt.Println(`{"jsonrpc":"2.0","id":` + id + `}`) })
	},
	"long": func() {
		serveRole(func(id string) {
			fmt.Print(`{"jsonrpc":"2.0","id":` + id + `,"result":{"text":"`)
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			for range 40 {
				os.Stdout.Write(chunk)
			}
			fmt.Println(`"}}`)
		})
	},
	"mute": func() {
		serveRole(func(string) {
			os.Stdout.Close()
			linger()
		})
	},
	"flood": func() {
		serveRole(func(string) {
			line := []byte(strings.Repeat("noise ", 400) + "\n")
			for range 8 << 20 / len(line) {
				os.Stderr.Write(line)
			}
			os.Exit(3)
		})
	},
	"stubborn": func() {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		serveRole(func(string) {})
		linger()
	},
	"deaf": func() { serveRole(func(string) { linger() }) },
	"listless": func() {
		capabilities = `{"tools":{}}`
		serveRole(func(string) { os.Exit(3) })
	},
	// The parent of a process that keeps its pipes open, in its group or not.
	"parent":       func() { leave(&syscall.SysProcAttr{}) },
	"strangeChild": func() { leave(&syscall.SysProcAttr{Setsid: true}) },
	"linger":       linger,
	"family":       familyRole,
}

func runRole(name string) { roles[name]() }

// capabilities are those of a role.
var capabilities = "{}"

// serveRole performs the handshake and answers any other request with its params after the fault.
func serveRole(fault func(id string)) {
	for lines := jsonrpc.NewReader(os.Stdin, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			os.Exit(9)
		}
		result := m.Params
		switch {
		case m.Method == "initialize":
			result = []byte(`{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"role","version":"1"}}`)
		case !m.IsRequest():
			continue
		default:
			fault(string(m.ID))
		}
		os.Stdout.Write(append(jsonrpc.AppendResult(nil, m.ID, result), '\n'))
	}
}

func linger() { time.Sleep(time.Minute) }

// leave exits at the first call, and leaves a child with its stdout and stderr.
func leave(attr *syscall.SysProcAttr) {
	serveRole(func(string) {
		child := exec.Command(os.Args[0])
		child.Env = []string{Role("linger")}
		child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, attr
		if err := child.Start(); err != nil {
			os.Exit(9)
		}
		fmt.Fprintln(os.Stderr, "pid", child.Process.Pid)
		os.Exit(0)
	})
}

// familyRole is a process with a child that ignores SIGTERM.
func familyRole() {
	child := exec.Command(os.Args[0])
	child.Env = []string{Role("stubborn")}
	child.Stdin, _, _ = os.Pipe()
	out, err := child.StdoutPipe()
	if err != nil || child.Start() != nil {
		os.Exit(9)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		os.Exit(9)
	}
	serveRole(func(id string) {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"pids":[%d,%d]}}`+"\n", id, os.Getpid(), child.Process.Pid)
		linger()
	})
}

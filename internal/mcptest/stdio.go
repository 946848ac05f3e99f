package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// variable is the environment variable with the options of a child process.
const variable = "MCPSCHEDD_TEST_SERVER"

// roleVariable is the environment variable with the role of a child process.
const roleVariable = "MCPSCHEDD_TEST_ROLE"

// Role is the environment variable that makes a child process a server with one fault; see roles.
func Role(name string) string { return roleVariable + "=" + name }

// stdin is the input of a child process; the tool "closein" closes it.
var stdin *os.File

// Main runs this process as a server on stdio if the variable of [Options.Env] or of [Role] is
// set, and then does not return. TestMain must call it first if the test binary is the program.
func Main() {
	if role, ok := os.LookupEnv(roleVariable); ok {
		runRole(role)
		os.Exit(0)
	}
	text, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	var o Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	if err := serveStdio(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	os.Exit(0)
}

func serveStdio(o Options) error {
	if o.Beacon != "" {
		beacon, err := arrive(context.Background(), o.Beacon)
		if err != nil {
			return err
		}
		defer beacon.Close()
	}
	if o.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	if o.Family {
		if err := bear(o); err != nil {
			return err
		}
	}
	if o.Start == "die" {
		fmt.Fprintln(os.Stderr, o.Name+": born to die")
		o.leak()
		os.Exit(4)
	}
	if o.Start == "rubbish" {
		fmt.Println("Welcome!\n\n{}\n\"text\"\n{\"jsonrpc\":\"2.0\",\"id\":77,\"result\"")
	}
	var err error
	if stdin, err = pollable(os.Stdin); err != nil {
		return err
	}
	if o.Relay != "" {
		return relay(o.Relay)
	}
	return New(o).stdio()
}

// stdio serves the client of a process until its input ends. Running calls are then abandoned.
func (s *Server) stdio() error {
	send := lineWriter(os.Stdout)
	session := s.session(send)
	waits := s.o.Gate != ""
	var failed error
	err := readMessages(stdin, func(m jsonrpc.Message) {
		if waits {
			failed, waits = standAt(context.Background(), s.o.Gate), false
		}
		switch {
		case failed != nil || s.o.Start == "mute":
			return
		case s.o.Start == "shy" && m.Method == "server/discover":
			fmt.Fprintln(os.Stderr, "want initialize, have", m.Method)
			os.Exit(9)
		}
		if calls(m, "closein") {
			s.mark("deaf")
		}
		if serve := session.take(context.Background(), m, send); serve != nil {
			go serve()
		}
	})
	if s.o.Stays || s.has("deaf") {
		time.Sleep(limit)
	}
	return errors.Join(err, failed)
}

func calls(m jsonrpc.Message, tool string) bool {
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	return m.Method == "tools/call" && name == tool
}

// mark records that an event has happened and reports whether it had happened before.
func (s *Server) mark(what string) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.once[what]
	s.once[what] = true
	return before
}

func (s *Server) has(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.once[what]
}

// bear starts a child process that does nothing.
func bear(o Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), Options{Name: o.Name + "'s child", Beacon: o.Beacon, Start: "mute", Stays: true, Stubborn: o.Stubborn}.Env())
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		return err
	}
	_ = in // stays open until the parent exits
	return child.Start()
}

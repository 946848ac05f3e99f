package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// variable is the environment variable with the options of a child process.
const variable = "MCPSCHEDD_TEST_SERVER"

// stdin is the input of a child process; the tool "closein" closes it.
var stdin io.ReadCloser

// Main runs this process as a server on stdio if the variable of [Options.Env] is set, and then
// does not return. TestMain must call it first if the test binary is the program.
func Main() {
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
		beacon, err := dialGate(context.Background(), o.Beacon)
		if err != nil {
			return err
		}
		defer beacon.Close()
	}
	if o.Stubborn {
		signal.Ignore(syscall.SIGTERM)
	}
	if o.Family {
		if err := startChild(o); err != nil {
			return err
		}
	}
	if o.Start == "die" {
		fmt.Fprintln(os.Stderr, o.Name+": born to die")
		o.leak()
		os.Exit(4)
	}
	var err error
	if stdin, err = jsonrpc.OpenStream(os.Stdin); err != nil {
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
	s.sessions["stdio"] = session
	waits, stays := s.o.Gate != "", s.o.Stays
	var failed error
	err := readMessages(stdin, func(m jsonrpc.Message) {
		if waits {
			failed, waits = waitAtGate(context.Background(), s.o.Gate), false
		}
		switch {
		case failed != nil || s.o.Start == "mute":
			return
		case calls(m, "closein"):
			stays = true
		case calls(m, "deaf"):
			time.Sleep(limit)
		}
		if serve := session.take(context.Background(), m, send); serve != nil {
			go serve()
		}
	})
	if stays {
		time.Sleep(limit)
	}
	return errors.Join(err, failed)
}

func calls(m jsonrpc.Message, tool string) bool {
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	return m.Method == "tools/call" && name == tool
}

// startChild starts a child process that does nothing, with the outputs of this one.
func startChild(o Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), Options{Name: o.Name + "'s child", Beacon: o.Beacon, Stays: true, Stubborn: o.Stubborn}.Env())
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	return child.Start()
}

package record_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// The test binary is also the child process that writes into a folder.
func TestMain(m *testing.M) {
	child, ok := children[os.Getenv("EVENTS_CHILD")]
	if !ok {
		for _, v := range os.Environ() { // the developer's variables must not affect the tests
			if key, _, _ := strings.Cut(v, "="); strings.HasPrefix(key, "OTEL_") {
				os.Unsetenv(key)
			}
		}
		os.Exit(m.Run())
	}
	child(os.Getenv("EVENTS_DIR"))
}

var children = map[string]func(dir string){
	"forever": writeForever,
	"calls":   writeCalls,
	"alone":   writeAndSay,
}

// childCalls is the number of calls that a "calls" or "alone" process makes in each of two
// sessions.
const childCalls = 1500

// startChild returns the command of a child process.
func startChild(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "EVENTS_CHILD="+what, "EVENTS_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// writeForever prints the number of its calls after each Flush.
func writeForever(dir string) {
	l := record.Open(record.Options{Dir: dir, RotateBytes: 32 << 10})
	for seq := int64(1); ; seq++ {
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq, At: time.Now(), Tool: "a_tool", RawArguments: []byte(`{"a":1}`)})
		if seq%200 == 0 {
			l.Flush()
			fmt.Println(seq)
		}
	}
}

func writeCalls(dir string) {
	l := record.Open(record.Options{Dir: dir, RotateBytes: 64 << 10})
	for seq := range int64(childCalls) {
		for _, name := range []string{"a", "b"} {
			l.Add(record.Event{Kind: record.Call, Session: name + strconv.Itoa(os.Getpid()), Seq: seq + 1})
		}
		if seq%100 == 0 {
			time.Sleep(2 * time.Millisecond) // so that all run at the same time
		}
	}
	l.Close()
}

// writeAndSay makes calls and prints the number of lost lines.
func writeAndSay(dir string) {
	limitFiles()
	l := record.Open(record.Options{Dir: dir})
	for seq := range int64(childCalls) {
		l.Add(record.Event{Kind: record.Call, Session: "s", Seq: seq + 1})
	}
	l.Close()
	fmt.Print(l.Lost())
}

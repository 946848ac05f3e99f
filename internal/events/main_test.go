package events_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"mcpschedd/internal/events"
)

// The test binary is also the processes that write into one folder.
func TestMain(m *testing.M) {
	child, ok := children[os.Getenv("EVENTS_CHILD")]
	if !ok {
		os.Exit(m.Run())
	}
	child(os.Getenv("EVENTS_DIR"))
}

var children = map[string]func(dir string){
	"forever": writeForever,
	"calls":   writeCalls,
	"key":     printKey,
	"alone":   writeAndSay,
}

// childCalls is how many calls a process of "calls" and "alone" makes in each of two
// sessions.
const childCalls = 1500

// start prepares a process.
func start(t *testing.T, what, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "EVENTS_CHILD="+what, "EVENTS_DIR="+dir, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return cmd
}

// writeForever says after each Flush how many calls it has made.
func writeForever(dir string) {
	l := events.Open(events.Options{Dir: dir, RotateBytes: 32 << 10, Every: time.Millisecond})
	for seq := int64(1); ; seq++ {
		l.Add(events.Event{Kind: events.Call, Session: "s", Seq: seq, At: time.Now(), Tool: "a_tool", RawArguments: []byte(`{"a":1}`)})
		if seq%200 == 0 {
			l.Flush()
			fmt.Println(seq)
		}
	}
}

func writeCalls(dir string) {
	l := events.Open(events.Options{Dir: dir, RotateBytes: 64 << 10, Every: time.Millisecond})
	for seq := range int64(childCalls) {
		for _, name := range []string{"a", "b"} {
			l.Add(events.Event{Kind: events.Call, Session: name + strconv.Itoa(os.Getpid()), Seq: seq + 1})
		}
		if seq%100 == 0 {
			time.Sleep(2 * time.Millisecond) // so that they all run at once
		}
	}
	l.Close()
}

func printKey(dir string) {
	key, err := events.Key(filepath.Join(dir, "hash-key"), filepath.Join(dir, "events", "key"))
	fmt.Printf("%x %v", key, err)
}

// writeAndSay makes calls and says how many lines were lost.
func writeAndSay(dir string) {
	limitFiles()
	l := events.Open(events.Options{Dir: dir})
	for seq := range int64(childCalls) {
		l.Add(events.Event{Kind: events.Call, Session: "s", Seq: seq + 1})
	}
	l.Close()
	fmt.Print(l.Lost())
}

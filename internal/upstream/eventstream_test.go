package upstream

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/jsonrpc"
)

// block is an event in comparable form, with the position after it.
type block struct {
	Kind, ID, Data string
	Retry          time.Duration
}

func allEvents(r io.Reader, max int) ([]block, error) {
	s := newEventStream(r, max)
	var got []block
	for at := new(cursor); ; {
		kind, data, err := s.next(at)
		if _, long := errors.AsType[*jsonrpc.MessageTooLong](err); long {
			return append(got, block{Kind: "too long"}), nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, block{kind, at.id, string(data), at.retry})
	}
}

func data(s string) block { return block{Kind: "message", Data: s} }

func TestEventStreamPassesOnAnErrorAfterWholeEvents(t *testing.T) {
	broken := errors.New("broken")
	got, err := allEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	if diff := cmp.Diff([]block{data("a")}, got); diff != "" || err != broken {
		t.Errorf("got (-want +got) with %v:\n%s", err, diff)
	}
}

// An event is returned when its empty line has arrived, without waiting for more input.
func TestEventStreamDoesNotWaitForMore(t *testing.T) {
	for _, in := range []string{"data: a\n\n", "data: a\r\n\r\n"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, in) }()
		_, data, err := newEventStream(r, 100).next(new(cursor))
		if err != nil || string(data) != "a" {
			t.Errorf("%q: got %q, %v", in, data, err)
		}
		w.Close()
	}
}

func TestEventStreamEndsAtWhatIsTooLong(t *testing.T) {
	const max = 10_000
	long := strings.Repeat("x", max+1)
	endless := strings.Repeat("x", 40*max)
	for name, in := range map[string]string{
		"one line":      "data: " + endless + "\n\n",
		"by one byte":   "data: " + long + "\n\n",
		"many lines":    strings.Repeat("data: xxxxxxxxx\n", max) + "\n",
		"endless field": "id: " + endless + "\n\n",
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.HalfReader(strings.NewReader("data: a\n\n" + in))} {
			got, err := allEvents(r, max)
			if len(got) == 0 || got[len(got)-1].Kind != "too long" {
				t.Errorf("%s: got %d events with %v", name, len(got), err)
			}
		}
	}
	if got, _ := allEvents(strings.NewReader("data: "+long[1:]+"\n\n"), max); len(got) != 1 || len(got[0].Data) != max {
		t.Errorf("data of exactly the limit: got %d events", len(got))
	}
}

// Data stay valid after the next event has been read.
func TestEventStreamDataIsTheReceivers(t *testing.T) {
	var in strings.Builder
	var want []string
	for i := range 60 {
		s := strings.Repeat(string(rune('a'+i%26)), 1+i*i*40)
		want = append(want, s)
		in.WriteString("data: " + s + "\n\n")
	}
	s := newEventStream(strings.NewReader(in.String()), 1<<20)
	var got [][]byte
	for {
		_, data, err := s.next(new(cursor))
		if err != nil {
			break
		}
		got = append(got, data)
	}
	if len(got) != len(want) {
		t.Fatalf("got %d events, want %d", len(got), len(want))
	}
	for i := range got {
		if string(got[i]) != want[i] {
			t.Errorf("event %d: changed", i)
		}
		if cap(got[i]) > 3*len(got[i])+64 {
			t.Errorf("event %d: %d bytes hold %d", i, len(got[i]), cap(got[i]))
		}
	}
}

// wantEvents implements the algorithm of the standard in the simplest way.
func wantEvents(in string) (want []block) {
	in = strings.TrimPrefix(in, "\xef\xbb\xbf")
	in = strings.ReplaceAll(in, "\r\n", "\n")
	if strings.HasSuffix("\n"+in, "\n\r") { // an empty line of which only the LF is cut off
		in = strings.TrimSuffix(in, "\r") + "\n"
	}
	lines := strings.Split(in, "\n")
	now, some, text := data(""), false, []string(nil)
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if now.Data = strings.Join(text, "\n"); some {
				want = append(want, now)
			}
			now.Kind, some, text = "message", false, nil
			continue
		case name == "data":
			text = append(text, value)
		case name == "event":
			if now.Kind = value; value == "" {
				now.Kind = "message"
			}
		case name == "id" && !strings.Contains(value, "\x00"):
			now.ID = value
		case name == "retry" && value != "" && strings.Trim(value, "0123456789") == "":
			now.Retry = maxRetryField
			if ms, err := strconv.Atoi(value); err == nil && ms < int(maxRetryField.Milliseconds()) {
				now.Retry = time.Duration(ms) * time.Millisecond
			}
		default:
			continue
		}
		some = true
	}
	return want
}

// chunks is a reader that returns a text in pieces of random size.
type chunks struct {
	rest string
	rand *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.rand.IntN(40))], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func FuzzEventStream(f *testing.F) {
	for seed, in := range []string{
		"data:{}\n\ndata:  x \n\ndata: a\r\n\r\ndata: a\ndata\ndata:\ndata: bcd\n\n",
		"data: a\r\ndata: b\r\r\n\nid: 1\nevent: x\nretry: 12\n\n",
		": ping\n\n:\n\n\n\ndata: a\nid: 7\n:c\nxyz: 1\ndata: b\n\n",
		"\xef\xbb\xbfdata\n\n: c\n\rdata:\n\n",
		"\n\xef\xbb\xbfdata: a\n\n",
		"event: a\nevent: b\nid: 1\nid: 2\nevent:\ndata: x\n\ndata: y\n\n",
		"id: p\ndata:\n\nid\ndata: x\n\nid: a\x00b\ndata: x\n\n",
		"retry: 1s\nretry: -1\nretry:\nretry: 99999999999999999999999\n\ndata: a\n\ndata: b\n",
		"Data: a\n data: b\ndatax: c\ndata : d\ndata: e\n\n",
		"data: " + strings.Repeat("x", 4500) + "\rdata: y\n\ndata: z\n\n",
		"data: " + strings.Repeat("x\r", 60) + "\n\n\r\n",
		"data: a\n\r",
	} {
		f.Add(in, uint64(seed))
	}
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		got, err := allEvents(&chunks{in, rand.New(rand.NewPCG(seed, 0))}, 1<<20)
		if diff := cmp.Diff(wantEvents(in), got); diff != "" || err != io.EOF {
			t.Errorf("got (-want +got) with %v:\n%s", err, diff)
		}
		// With a small limit each event is either complete or an error.
		limited, _ := allEvents(&chunks{in, rand.New(rand.NewPCG(seed, 1))}, 8)
		i := 0
		for _, want := range got {
			if len(want.Data) > 8 {
				want = block{Kind: "too long"}
			} else if len(in) > 4<<10 {
				return // fields may exceed the limit too
			}
			if i >= len(limited) || limited[i] != want {
				t.Fatalf("limited: got %v, want event %d to be %v", limited, i, want)
			}
			if i++; want.Kind == "too long" {
				return
			}
		}
	})
}

func BenchmarkEventStream(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "1MB": 1 << 20} {
		in := []byte("event: message\ndata: " + strings.Repeat("x", size) + "\n\n")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := newEventStream(bytes.NewReader(in), 64<<20).next(new(cursor)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

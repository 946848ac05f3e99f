package proxy_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// wire is the client's end of two pipes.
type wire struct {
	t    *testing.T
	book *account // nil if the client itself checks all messages
	in   io.WriteCloser
	gone chan struct{} // closed when no more messages can arrive

	sending sync.Mutex

	// answer returns the client's reply to a question; nil means no reply yet.
	answer func(method string, params []byte) []byte

	mu      sync.Mutex
	ids     int
	waiting map[string]chan jsonrpc.Message // raw id → receives the answer
	asked   []string                        // methods of the questions received
	heard   []notice                        // notifications received

	// Only set without a book.
	lines []string             // all messages received, in order
	notes chan jsonrpc.Message // notifications, and questions without a reply
}

func newWire(t *testing.T, book *account, to io.WriteCloser, from io.Reader) *wire {
	w := &wire{
		t: t, book: book, in: to, gone: make(chan struct{}), waiting: make(map[string]chan jsonrpc.Message),
		notes: make(chan jsonrpc.Message, 4096),
	}
	if book != nil {
		w.answer = accepts
	}
	go w.read(from)
	return w
}

// read handles the proxy's messages.
func (w *wire) read(from io.Reader) {
	defer close(w.gone)
	for lines := jsonrpc.NewReader(from, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			w.t.Errorf("the proxy sent %q: %v", line, err)
			continue
		}
		w.mu.Lock()
		waiting, answer := w.waiting[string(m.ID)], w.answer
		switch {
		case m.IsRequest():
			w.asked = append(w.asked, m.Method)
		case m.IsNotification():
			w.heard = append(w.heard, notice{m.Method, string(m.Params), time.Now()})
		case m.IsResponse():
			delete(w.waiting, string(m.ID))
		}
		if w.book == nil {
			w.lines = append(w.lines, string(line))
		}
		w.mu.Unlock()
		switch {
		case m.IsRequest() && answer != nil:
			go func() {
				if result := answer(m.Method, m.Params); result != nil {
					_, _ = w.in.Write(append(jsonrpc.AppendResult(nil, m.ID, result), '\n')) // the proxy may have closed its end
				}
			}()
		case m.IsResponse() && waiting != nil:
			waiting <- m
		case m.IsResponse() && w.book == nil:
			w.t.Errorf("a response without a request: %s", line)
		case w.book == nil:
			w.notes <- m
		}
	}
}

// notice is a received notification.
type notice struct {
	method, params string
	at             time.Time
}

func (w *wire) send(line string) {
	w.sending.Lock()
	defer w.sending.Unlock()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil && err != io.ErrClosedPipe {
		w.t.Errorf("send: %v", err)
	}
}

func (w *wire) note(method, params string) {
	w.send(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

// sent is a request that was sent.
type sent struct {
	w      *wire
	id     string
	at     time.Time
	answer chan jsonrpc.Message
}

func (w *wire) start(method, params string) sent {
	w.mu.Lock()
	w.ids++
	s := sent{w, fmt.Sprint(w.ids), time.Now(), make(chan jsonrpc.Message, 1)}
	w.waiting[s.id] = s.answer
	w.mu.Unlock()
	if w.book != nil {
		w.book.note(method, params)
	}
	w.send(`{"jsonrpc":"2.0","id":` + s.id + `,"method":"` + method + `","params":` + params + `}`)
	return s
}

// answered is an answer and how long it took.
type answered struct {
	jsonrpc.Message
	took time.Duration
	none bool // the proxy has disconnected, or the call was cancelled
}

func (s sent) wait() answered {
	select {
	case m, ok := <-s.answer:
		return answered{Message: m, took: time.Since(s.at), none: !ok}
	case <-s.w.gone:
		select { // the response may be the last message
		case m, ok := <-s.answer:
			return answered{Message: m, took: time.Since(s.at), none: !ok}
		default:
			return answered{none: true, took: time.Since(s.at)}
		}
	}
}

// cancel cancels a request unless its answer has arrived. No answer arrives afterwards.
func (s sent) cancel() {
	s.w.mu.Lock()
	_, open := s.w.waiting[s.id]
	delete(s.w.waiting, s.id)
	s.w.mu.Unlock()
	if !open {
		return
	}
	close(s.answer)
	s.w.note("notifications/cancelled", `{"requestId":`+s.id+`}`)
}

func (w *wire) request(method, params string) answered { return w.start(method, params).wait() }

func (w *wire) begin(tool, arguments string) sent {
	return w.start("tools/call", toolCall(tool, arguments))
}

func (w *wire) call(tool, arguments string) answered { return w.begin(tool, arguments).wait() }

// questions returns the methods of the questions that the client received.
func (w *wire) questions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// how returns the disposition of an answer.
func (a answered) how() string {
	if a.none {
		return "not answered"
	}
	if a.Error != nil || string(jsonrpc.Get(a.Result, "isError")) == "true" {
		return "failed"
	}
	if how, ok := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(a.Result, "_meta"), "mcpschedd/disposition")); ok {
		return how
	}
	return "fetched"
}

// notices returns the notifications of a method so far.
func (w *wire) notices(method string) (all []notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.heard {
		if n.method == method {
			all = append(all, n)
		}
	}
	return all
}

package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// churnSession is a session of a client of the churn. It puts increasing numbers under a key of
// its own.
type churnSession struct {
	*churn
	*program
	rng    *rand.Rand
	key    string
	killed atomic.Bool // by the test

	ids      int
	sent     [2]atomic.Int64 // journal → last number that was put
	done     [2]atomic.Int64 // journal → last number that was answered as done
	open     map[string]*churnCall
	updates  [2]int // journal → number of notifications
	messages *jsonrpc.Reader
}

// churnCall is one call of a session.
type churnCall struct {
	tool      string
	journal   int
	of        *churnSession // session that puts under the key
	n         int64         // put: the number
	least     int64         // get: the least number that the answer may have
	after     []*churnCall  // get: puts under the key in the same batch
	got       int64         // get: the number that was returned
	answer    string        // "" means done
	cancelled bool
}

// errGone is the error of a session after its process has ended.
var errGone = errors.New("its process has gone")

// answerWithin is the time after which a response counts as lost. Processes may be stopped
// meanwhile.
const answerWithin = 2 * time.Minute

// converse plays the session until its process has ended or it has made enough calls.
func (s *churnSession) converse() error {
	s.open = make(map[string]*churnCall)
	s.messages = jsonrpc.NewReader(s.out, 0)
	if err := s.begin(); err != nil {
		return err
	}
	for range 5 + s.rng.IntN(60) {
		if s.made.Load() >= s.calls {
			break
		}
		if err := s.batch(); err != nil {
			return err
		}
	}
	return s.watched()
}

// begin makes the handshake, and subscribes to both journals. A server that is killed meanwhile
// cannot answer, so subscriptions are repeated.
func (s *churnSession) begin() error {
	if _, err := s.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"churn","version":"1"}}`); err != nil {
		return err
	}
	if err := s.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	for _, name := range journals {
		for range 20 {
			m, err := s.request("resources/subscribe", `{"uri":"`+s.uri(name)+`"}`)
			if err != nil {
				return err
			}
			if m.Error == nil {
				break
			}
			s.tally.count("subscribe: " + string(m.Error))
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

func (s *churnSession) uri(journal string) string { return journal + ":///" + s.key }

// request makes one request and waits for its answer.
func (s *churnSession) request(method, params string) (jsonrpc.Message, error) {
	s.ids++
	id := fmt.Sprint(s.ids)
	if err := s.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`); err != nil {
		return jsonrpc.Message{}, err
	}
	for {
		m, err := s.hear()
		if err != nil || string(m.ID) == id {
			return m, err
		}
		s.Errorf("%s: got %s, which no request matches", s.key, m.Raw)
	}
}

func (s *churnSession) say(line string) error {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return errGone
	}
	return nil
}

// hear returns the next response.
func (s *churnSession) hear() (jsonrpc.Message, error) {
	for {
		late := time.AfterFunc(answerWithin, func() {
			s.Errorf("%s: a request has no answer", s.key)
			s.cmd.Process.Kill()
		})
		line, err := s.messages.Next()
		late.Stop()
		if err != nil {
			return jsonrpc.Message{}, errGone
		}
		m, err := jsonrpc.Parse(line)
		switch {
		case err != nil:
			s.Errorf("%s: got %q: %v", s.key, line, err)
		case m.Method == "notifications/resources/updated":
			for i, name := range journals {
				if strings.Contains(string(m.Params), `"`+s.uri(name)+`"`) {
					s.updates[i]++
				}
			}
		case m.IsResponse():
			return m, nil
		}
	}
}

// batch makes some concurrent calls, cancels some of them, and checks the responses of the others.
func (s *churnSession) batch() error {
	var calls []*churnCall
	for range 1 + s.rng.IntN(5) {
		call := s.pick(calls)
		if err := s.send(call); err != nil {
			return err
		}
		calls = append(calls, call)
	}
	for s.waits() {
		m, err := s.hear()
		if err != nil {
			return err
		}
		s.answered(&m)
	}
	for _, call := range calls {
		s.check(call)
	}
	s.count(len(calls))
	return nil
}

// pick draws a call that follows others of its batch.
func (s *churnSession) pick(before []*churnCall) *churnCall {
	call := &churnCall{tool: "get", journal: s.rng.IntN(len(journals)), of: s}
	switch s.rng.IntN(10) {
	case 0:
		call.tool, call.cancelled = "hang", true
	case 1:
		call.cancelled = true
		fallthrough
	case 2, 3, 4:
		call.tool = "put"
		call.n = s.sent[call.journal].Add(1)
	case 5, 6:
		if other := s.other(s.rng); other != nil {
			call.of = other
		}
		fallthrough
	default:
		call.least = call.of.done[call.journal].Load()
	}
	if call.tool == "get" && call.of == s {
		for _, b := range before {
			if b.tool == "put" && b.journal == call.journal {
				call.after = append(call.after, b)
			}
		}
	}
	return call
}

// send sends a call, and its cancellation if it has one.
func (s *churnSession) send(call *churnCall) error {
	s.ids++
	id := fmt.Sprint(s.ids)
	s.open[id] = call
	arguments := fmt.Sprintf(`{"key":%q}`, call.of.key)
	if call.tool == "put" {
		arguments = fmt.Sprintf(`{"key":%q,"n":%d}`, call.of.key, call.n)
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s__%s","arguments":%s}}`, id, journals[call.journal], call.tool, arguments)
	if call.cancelled {
		line += "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
	}
	return s.say(line)
}

// waits reports whether a call has no answer yet and was not cancelled.
func (s *churnSession) waits() bool {
	for _, call := range s.open {
		if !call.cancelled {
			return true
		}
	}
	return false
}

// answered handles the response of a call.
func (s *churnSession) answered(m *jsonrpc.Message) {
	call, ok := s.open[string(m.ID)]
	if !ok {
		s.Errorf("%s: got %s, which no call matches", s.key, m.Raw)
		return
	}
	delete(s.open, string(m.ID))
	text, _ := jsonrpc.String(jsonrpc.Get(firstOf(jsonrpc.Get(m.Result, "content")), "text"))
	switch {
	case m.Error != nil:
		call.answer = string(m.Error)
	case string(jsonrpc.Get(m.Result, "isError")) == "true":
		call.answer = text
	default:
		s.understand(call, text)
	}
	s.tally.count(call.tool + " " + call.answer)
}

// firstOf returns the first element of an array.
func firstOf(array []byte) (first []byte) {
	for element := range jsonrpc.Elements(array) {
		return element
	}
	return nil
}

// understand handles the response of a successful call, which names the arguments.
func (s *churnSession) understand(call *churnCall, text string) {
	key, n, _ := strings.Cut(text, " ")
	if n != "" {
		if _, err := fmt.Sscan(n, &call.got); err != nil {
			s.Errorf("%s: got %q", s.key, text)
		}
	}
	if key != call.of.key || call.tool == "put" && call.got != call.n {
		s.Errorf("%s: %s %s %d: got the answer %q", s.key, call.tool, call.of.key, call.n, text)
	}
	if call.tool == "put" {
		for { // responses may overtake each other
			if last := s.done[call.journal].Load(); last >= call.n || s.done[call.journal].CompareAndSwap(last, call.n) {
				break
			}
		}
	}
}

// check checks a call after its batch was answered.
func (s *churnSession) check(call *churnCall) {
	switch {
	case call.tool == "put" && !call.cancelled:
		s.tally.note(call.journal, put{s.key, int(call.n)}, call.answer)
	case call.tool == "get" && call.answer == "":
		least := call.least
		for _, before := range call.after {
			if before.answer == "" && !before.cancelled {
				least = max(least, before.n)
			}
		}
		if most := call.of.sent[call.journal].Load(); call.got < least || call.got > most {
			s.Errorf("%s: get %s: got %d, want %d to %d", s.key, call.of.key, call.got, least, most)
		}
	}
}

// watched checks that the subscriptions still exist, as a write causes a notification. If the
// server is killed between the two, there is none, but that is rare.
func (s *churnSession) watched() error {
	for i, name := range journals {
		for silent := 0; ; {
			before := s.updates[i]
			answer, err := s.putOnce(i)
			if err != nil {
				return err
			}
			if s.updates[i] > before {
				break
			}
			if answer != "" { // the server does not run yet
				time.Sleep(50 * time.Millisecond)
			} else if silent++; silent == 5 {
				s.Errorf("%s: got no notifications of writes to %s", s.key, name)
				break
			}
		}
	}
	return nil
}

// putOnce makes one put and returns the answer, "" for done. All messages of the server before its
// answer have been handled then.
func (s *churnSession) putOnce(journal int) (answer string, err error) {
	call := &churnCall{tool: "put", journal: journal, of: s, n: s.sent[journal].Add(1)}
	if err := s.send(call); err != nil {
		return "", err
	}
	for s.waits() {
		m, err := s.hear()
		if err != nil {
			return "", err
		}
		s.answered(&m)
	}
	s.check(call)
	_, err = s.request("ping", "{}")
	return call.answer, err
}

// end ends the session's process.
func (s *churnSession) end(err error) {
	if err == nil && s.rng.IntN(4) == 0 {
		s.killed.Store(true)
		s.cmd.Process.Kill()
	}
	s.in.Close()
	_, _ = io.Copy(io.Discard, s.out)
	if ended := s.cmd.Wait(); !s.killed.Load() && (err != nil || ended != nil) {
		s.Errorf("%s: %v, %v", s.key, err, ended)
	}
}

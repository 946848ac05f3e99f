package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// httpClient drives a streamable HTTP server, with a connection for each call in flight. It writes
// the requests itself, as net/http's client passes each call through two more goroutines, which
// would hide a part of the measured difference.
type httpClient struct {
	addr    string
	path    string
	session string       // the server's Mcp-Session-Id; "" if it gave none
	next    atomic.Int64 // the next id
	conns   []*httpConn
}

// httpConn is one kept-alive connection, used by one goroutine at a time.
type httpConn struct {
	net.Conn
	r       *bufio.Reader
	head    []byte // the request being written
	body    []byte // the request's body, then the answer's
	session string // Mcp-Session-Id of the last response; "" if it had none
}

func newHTTPClient(addr, path string) *httpClient {
	c := &httpClient{addr: addr, path: path}
	c.next.Store(firstID)
	return c
}

// connect opens connections until there are at least n.
func (c *httpClient) connect(n int) error {
	for len(c.conns) < n {
		conn, err := net.DialTimeout("tcp", c.addr, 5*time.Second)
		if err != nil {
			return err
		}
		c.conns = append(c.conns, &httpConn{Conn: conn, r: bufio.NewReaderSize(conn, copyBuffer)})
	}
	return nil
}

func (c *httpClient) ask(r template) ([]byte, error) {
	if err := c.connect(1); err != nil {
		return nil, err
	}
	answer, err := c.call(c.conns[0], r)
	if s := c.conns[0].session; s != "" {
		c.session = s
	}
	return answer, err
}

func (c *httpClient) tell(method string) error {
	if err := c.connect(1); err != nil {
		return err
	}
	conn := c.conns[0]
	conn.body = fmt.Appendf(conn.body[:0], `{"jsonrpc":"2.0","method":%q}`+"\n", method)
	_, err := c.post(conn)
	return err
}

// call sends a request, and returns the message that answers it.
func (c *httpClient) call(conn *httpConn, r template) ([]byte, error) {
	id := c.next.Add(1)
	conn.body = r.append(conn.body[:0], id)
	body, err := c.post(conn)
	if err != nil {
		return nil, err
	}
	answer := messageIn(body)
	if got, ok := idOf(answer); !ok || got != id {
		return nil, fmt.Errorf("asked %d, answered %.200q", id, body)
	}
	return answer, nil
}

// messageIn returns the message in a body: the body itself, or the data of its only event.
func messageIn(body []byte) []byte {
	return bytes.TrimSpace(body[max(0, bytes.IndexByte(body, '{')):])
}

// post sends conn.body, and reads the response into it.
func (c *httpClient) post(conn *httpConn) ([]byte, error) {
	conn.SetDeadline(time.Now().Add(patience))
	h := fmt.Appendf(conn.head[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: %s\r\n", c.path, c.addr, clientRevision)
	if c.session != "" {
		h = fmt.Appendf(h, "Mcp-Session-Id: %s\r\n", c.session)
	}
	h = fmt.Appendf(h, "Content-Length: %d\r\n\r\n", len(conn.body))
	conn.head = append(h, conn.body...)
	if _, err := conn.Write(conn.head); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(conn.r, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body := bytes.NewBuffer(conn.body[:0])
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	conn.body = body.Bytes()
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %.300s", resp.Status, strings.TrimSpace(string(conn.body)))
	}
	conn.session = resp.Header.Get("Mcp-Session-Id")
	return conn.body, nil
}

func (c *httpClient) drive(l load) (sample, error) {
	if err := c.connect(l.window); err != nil {
		return sample{}, err
	}
	var (
		all   sample
		mu    sync.Mutex
		begun atomic.Int64
		wg    sync.WaitGroup
		errs  = make([]error, l.window)
		start = time.Now()
	)
	for i := range l.window {
		wg.Go(func() {
			for {
				at := time.Since(start)
				if l.done(int(begun.Add(1)-1), at) {
					return
				}
				answer, err := c.call(c.conns[i], l.call)
				now := time.Since(start)
				if err == nil {
					err = l.check(answer)
				}
				if err != nil {
					errs[i] = err
					return
				}
				mu.Lock()
				all.add(now-at, now, l.done(int(begun.Load()), now))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

func (c *httpClient) close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

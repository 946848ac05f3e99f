package valkey_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sys/unix"

	"mcpschedd/internal/call"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valkey"
	"mcpschedd/internal/valuemodel"
)

// Settings of the replicas. The delays of a loaded machine must stay well below processSettle.
const (
	processLease  = 500 * time.Millisecond
	processSettle = 2 * time.Second
	landing       = processSettle / 4 // longest time from the end of its request until a write lands
	keeps         = processLease + processSettle
)

// replicaVariable makes the test binary a replica: storeURL and serviceURL, separated by a space.
// Its listener is descriptor 3.
const replicaVariable = "MCPSCHEDD_TEST_REPLICA"

func TestMain(m *testing.M) {
	if which := os.Getenv(replicaVariable); which != "" {
		if err := serveReplica(which); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	_ = flag.Set("test.parallel", "8") // the tests mostly wait for leases to expire; the command line overrides it
	os.Exit(m.Run())
}

// principals are the credentials that the replicas use at the service, each for an upstream with
// its own rules: a write of the first invalidates the answers with the same n, a write of the
// second all answers. Keys and places of both are equal, so only the principal separates their
// answers.
var principals = []string{"alpha", "beta"}

func serveReplica(which string) error {
	store, service, _ := strings.Cut(which, " ")
	peers, err := valkey.New(valkey.Options{URL: store, Lease: processLease, WriteSettle: processSettle})
	if err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	rules := []valuemodel.Rule{{Pattern: "*/get", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: time.Hour}}}}
	o := proxy.Options{Fixed: proxy.Fixed{StartupWait: patience, Log: slog.New(slog.DiscardHandler)}, Dedup: dedup.Options{MaxBytes: 1 << 20, WriteSettle: processSettle, Peers: &stopping{peers, asked}}}
	for i, name := range principals {
		ends := valuemodel.Edge{Tool: "*/get"}
		if i == 0 {
			ends.Match = []string{"n"}
		}
		put := valuemodel.Layer{Class: valuemodel.MutatesExternal, InvalidatesOnly: new(true), Invalidates: []valuemodel.Edge{ends}}
		rules = append(rules, valuemodel.Rule{Pattern: name + "/put", Source: "test", Layer: put})
		o.Upstreams = append(o.Upstreams, catalog.Upstream{
			Spec:        upstream.Spec{Name: name, URL: service, Header: http.Header{"Authorization": {name}}, Shared: true, StartTimeout: patience},
			Fingerprint: service + " as " + name, SharedIdentity: true, Model: valuemodel.Upstream{Name: name, URL: service},
		})
	}
	models, problems := valuemodel.Compile(rules)
	if len(problems) > 0 {
		return fmt.Errorf("%v", problems)
	}
	o.Models = models
	o.Common = proxy.NewCommon(o)
	peers.WatchCount(o.Common.SetReplicas)
	s := proxy.New(o, nil)
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(listener, s.HTTP())
}

// stopping wraps the shared state. After each SIGUSR1 it stops the process once, just before a
// write is sent.
type stopping struct {
	*valkey.Store
	asked chan os.Signal
}

func (s *stopping) Announce(ctx context.Context, places []call.Place, lost func(error)) (dedup.Announcement, error) {
	told, err := s.Store.Announce(ctx, places, lost)
	return stoppingWrite{told, s.asked}, err
}

type stoppingWrite struct {
	dedup.Announcement
	asked chan os.Signal
}

func (w stoppingWrite) Fence() error {
	select {
	case <-w.asked:
		runtime.LockOSThread() // the stop takes effect first on the thread that would send
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
		runtime.UnlockOSThread()
	default:
	}
	return w.Announcement.Fence()
}

// value is one value of the service.
type value struct {
	principal string
	n         int
	version   atomic.Int64 // raised when a write lands
}

// put is a write, by its id.
type put struct {
	came, landed atomic.Int64
	said         string // what the client was told: "done", "not sent", or "" if its outcome is unknown
}

// processes are replicas that run in other processes, their service and server, and counts of what
// happened.
type processes struct {
	t        *testing.T
	store    *store
	replicas []*process
	values   []*value
	url      string // of the service
	client   http.Client

	mu   sync.Mutex
	puts []*put

	gets, reads, writes, notSent, unknown, failed, stale, foreign atomic.Int64
}

// process is one replica.
type process struct {
	listener *os.File // stays open when the process is killed
	url      string
	cable    *cable

	stops sync.RWMutex // held for writing while the process may be stopped; slow writes hold it, as one sent before a stop may land after its mark has expired
	mu    sync.Mutex
	cmd   *exec.Cmd
}

func startProcesses(t *testing.T, n int) *processes {
	p := &processes{t: t, store: startServer(t)}
	for n := range 8 {
		for _, name := range principals {
			p.values = append(p.values, &value{principal: name, n: n})
		}
	}
	p.url = p.serve()
	p.client.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	p.client.Timeout = patience
	t.Cleanup(p.client.CloseIdleConnections)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		r := &process{listener: file, url: "http://" + l.Addr().String() + "/mcp/", cable: newCable(t, p.store.addr)}
		l.Close()
		p.replicas = append(p.replicas, r)
		t.Cleanup(r.kill)
		p.start(r)
	}
	return p
}

// start starts a replica, and returns when it replies.
func (p *processes) start(r *process) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), replicaVariable+"=valkey://"+r.cable.addr()+" "+p.url)
	cmd.ExtraFiles = []*os.File{r.listener}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.t.Error(err)
		return
	}
	r.mu.Lock()
	r.cmd = cmd
	r.mu.Unlock()
	waitUntil(p.t, "a replica answers", func() bool {
		_, failed, err := p.call(r, principals[0], "get", `{"n":0}`)
		return err == nil && failed == ""
	})
}

func (r *process) signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(s)
	}
}

func (r *process) kill() {
	r.signal(syscall.SIGKILL)
	if r.cmd != nil {
		_ = r.cmd.Wait()
	}
}

// stopped reports whether the process is stopped.
func (r *process) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return err == nil && bytes.HasPrefix(rest, []byte("T"))
}

// at returns a value of the service.
func (p *processes) at(principal string, n int) *value {
	for _, v := range p.values {
		if v.principal == principal && v.n == n {
			return v
		}
	}
	return nil
}

// serve starts the service, and returns its URL.
func (p *processes) serve() string {
	type as struct{}
	who := func(ctx context.Context) string { return ctx.Value(as{}).(string) }
	s := server.NewMCPServer("service", "1", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("get", mcp.WithNumber("n")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		p.gets.Add(1)
		v := p.at(who(ctx), r.GetInt("n", 0))
		text := fmt.Sprint(v.principal, " ", v.n, " ", v.version.Load())
		if rand.IntN(4) == 0 {
			pause(5)
		}
		return mcp.NewToolResultText(text), nil
	})
	s.AddTool(mcp.NewTool("put", mcp.WithNumber("n"), mcp.WithNumber("id"), mcp.WithBoolean("slow")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		p.mu.Lock()
		w := p.puts[r.GetInt("id", 0)]
		p.mu.Unlock()
		if w.came.Add(1) > 1 {
			p.t.Errorf("write %d was received twice", r.GetInt("id", 0))
		}
		alone := ctx.Done() // closed when the replica has gone or has given the request up
		if r.GetBool("slow", false) {
			select {
			case <-alone:
			case <-time.After(2 * keeps):
			}
		}
		if rand.IntN(10) == 0 {
			time.Sleep(rand.N(landing))
		} else {
			pause(5)
		}
		p.at(who(ctx), r.GetInt("n", 0)).version.Add(1)
		w.landed.Add(1)
		if rand.IntN(4) == 0 { // the answer is still on its way
			pause(200)
		}
		return mcp.NewToolResultText("done"), nil
	})
	web := httptest.NewServer(server.NewStreamableHTTPServer(s, server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context {
		return context.WithValue(ctx, as{}, r.Header.Get("Authorization"))
	})))
	p.t.Cleanup(web.Close)
	p.t.Cleanup(web.CloseClientConnections) // runs before web.Close, which waits for the open streams of killed processes
	return web.URL + "/mcp"
}

// call calls a tool at a replica as a stateless client. failed is the text of an error result.
func (p *processes) call(r *process, principal, tool, arguments string) (text, failed string, err error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, tool, arguments)
	request, err := http.NewRequest(http.MethodPost, r.url+principal, strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
	response, err := p.client.Do(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return "", "", err
	}
	if _, data, streamed := bytes.Cut(all, []byte("data:")); streamed {
		all, _, _ = bytes.Cut(data, []byte("\n"))
	}
	var m struct {
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
		Error *struct{ Message string }
	}
	switch err := json.Unmarshal(all, &m); {
	case err != nil:
		return "", "", fmt.Errorf("%s: %w", all, err)
	case m.Error != nil:
		return "", m.Error.Message, nil
	case len(m.Result.Content) != 1:
		return "", "", fmt.Errorf("got %s", all)
	case m.Result.IsError:
		return "", m.Result.Content[0].Text, nil
	}
	return m.Result.Content[0].Text, "", nil
}

// read reads a value through a replica, and checks that the answer is not from before the call.
func (p *processes) read(r *process, v *value) {
	held := v.version.Load()
	text, failed, err := p.call(r, v.principal, "get", fmt.Sprintf(`{"n":%d}`, v.n))
	if err != nil || failed != "" {
		p.failed.Add(1)
		return
	}
	p.reads.Add(1)
	fields := strings.Fields(text)
	if fields[0] != v.principal || fields[1] != strconv.Itoa(v.n) {
		p.foreign.Add(1)
		p.t.Errorf("answer of another principal: asked as %s for %d, got %s", v.principal, v.n, text)
		return
	}
	if got, _ := strconv.ParseInt(fields[2], 10, 64); got < held {
		p.stale.Add(1)
		p.t.Errorf("stale answer: %s %d: read version %d, and %d held before", v.principal, v.n, got, held)
	}
}

// write writes a value through a replica.
func (p *processes) write(r *process, v *value) {
	w := new(put)
	p.mu.Lock()
	id := len(p.puts)
	p.puts = append(p.puts, w)
	p.mu.Unlock()
	more := ""
	if rand.IntN(30) == 0 && r.stops.TryRLock() {
		defer r.stops.RUnlock()
		more = `,"slow":true`
	}
	text, failed, err := p.call(r, v.principal, "put", fmt.Sprintf(`{"n":%d,"id":%d%s}`, v.n, id, more))
	switch {
	case err == nil && text == "done":
		p.writes.Add(1)
		w.said = "done"
	case strings.Contains(failed, "not sent"):
		p.notSent.Add(1)
		w.said = "not sent"
	default:
		p.unknown.Add(1)
	}
}

// look reads a value through the other replicas, often enough for them to store its answer.
func (p *processes) look(but *process, v *value) {
	for range 10 {
		for _, r := range p.replicas {
			if r != but {
				p.read(r, v)
			}
		}
		time.Sleep(processLease / 10)
	}
}

// troubles are the faults that the test causes, at one replica or at the server.
var troubles = []struct {
	name string
	make func(p *processes, r *process)
}{
	{"stop before a write is sent, and cut, until its mark has gone", func(p *processes, r *process) {
		r.stops.Lock()
		defer r.stops.Unlock()
		v := p.values[rand.IntN(len(p.values))]
		r.signal(syscall.SIGUSR1)
		var writes sync.WaitGroup
		for !r.stopped() { // repeated, as the process only stops at a write that could be announced
			writes.Go(func() { p.write(r, v) })
			time.Sleep(processLease / 5)
		}
		r.cable.setCut(true) // otherwise it could renew the mark when it continues
		time.Sleep(keeps)
		p.look(r, v) // so that the other replicas have cached answers from before the write
		r.signal(syscall.SIGCONT)
		writes.Wait()
		p.look(r, v)
		r.cable.setCut(false)
	}},
	{"stop, shorter or longer than a mark stands", func(p *processes, r *process) {
		r.stops.Lock()
		defer r.stops.Unlock()
		r.signal(syscall.SIGSTOP)
		time.Sleep(rand.N(keeps + processLease))
		r.signal(syscall.SIGCONT)
	}},
	{"kill", func(p *processes, r *process) { r.kill(); p.start(r) }},
	{"cut", func(p *processes, r *process) {
		r.cable.setCut(true)
		time.Sleep(rand.N(4 * processLease))
		r.cable.setCut(false)
	}},
	{"restart of the store", func(p *processes, _ *process) {
		p.store.kill()
		time.Sleep(rand.N(processLease))
		p.store.start()
	}},
	{"stop of the store", func(p *processes, _ *process) {
		p.store.signal(syscall.SIGSTOP)
		time.Sleep(rand.N(3 * processLease))
		p.store.signal(syscall.SIGCONT)
	}},
}

// TestProcesses kills, stops and partitions replicas in other processes, and their server. No
// answer may be from before its call or of another principal. A write may land at most once, and
// its client must get the right outcome.
func TestProcesses(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 3)
	// The slice of go test has the faults that TestInvariant does not cause, and few values, so
	// that each is read often.
	rounds, causes, values, resting, readsPerWrite := 1, troubles[:3], p.values[:4], 600*time.Millisecond, 20
	if os.Getenv("MCPSCHEDD_SOAK") != "" {
		rounds, causes, values, resting, readsPerWrite = 15, troubles, p.values, time.Millisecond, 100
	}
	var over atomic.Bool
	var workers sync.WaitGroup
	for range 12 {
		workers.Go(func() {
			for !over.Load() {
				r, v := p.replicas[rand.IntN(len(p.replicas))], values[rand.IntN(len(values))]
				if rand.IntN(readsPerWrite) == 0 {
					p.write(r, v)
				} else {
					p.read(r, v)
				}
				time.Sleep(rand.N(resting))
			}
		})
	}
	made := 0
	for range rounds {
		for _, nth := range rand.Perm(len(causes)) {
			if p.stale.Load()+p.foreign.Load() > 0 {
				break
			}
			time.Sleep(rand.N(keeps + 2*time.Second)) // includes the time in which a new history is not trusted
			causes[nth].make(p, p.replicas[rand.IntN(len(p.replicas))])
			made++
		}
	}
	time.Sleep(keeps + 2*time.Second)
	over.Store(true)
	workers.Wait()
	time.Sleep(landing) // longest time in which a write that was given up may land
	p.judge(made)
}

// judge checks the outcome of each write.
func (p *processes) judge(made int) {
	t := p.t
	for id, w := range p.puts {
		came, landed := w.came.Load(), w.landed.Load()
		if w.said == "done" && landed != 1 || w.said == "not sent" && came != 0 {
			t.Errorf("write %d: its client got %q: it was received %d times, and landed %d times", id, w.said, came, landed)
		}
	}
	t.Logf("%d troubles: %d reads (%d by the service), %d stale, %d of another principal; %d writes answered, %d not sent, %d of unknown outcome; %d reads not answered",
		made, p.reads.Load(), p.gets.Load(), p.stale.Load(), p.foreign.Load(), p.writes.Load(), p.notSent.Load(), p.unknown.Load(), p.failed.Load())
	if p.gets.Load() >= p.reads.Load() || p.writes.Load() == 0 {
		t.Error("the test proves little")
	}
}

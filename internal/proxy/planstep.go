package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// planPart says which call of a plan a request is.
type planPart struct {
	plan  int    // its number
	step  string // its id
	needs []string
	gate  gate        // asked before the call is sent; nil: it may be
	doubt atomic.Bool // it may have been run although it failed
}

// gateway is the gate of a call; nil: it has none.
func (p *planPart) gateway() gate {
	if p == nil {
		return nil
	}
	return p.gate
}

// noteDoubt notes that the call may have been run.
func (p *planPart) noteDoubt() {
	if p != nil {
		p.doubt.Store(true)
	}
}

// samePlan reports whether two requests are of one plan: then one client waits for both.
func (p *planPart) samePlan(q *planPart) bool { return p != nil && q != nil && p.plan == q.plan }

// prefix is what the keys of a request's questions begin with.
func (p *planPart) prefix() string {
	if p == nil {
		return "q"
	}
	return p.step + "."
}

// call makes one call of a plan, the way a client's call is made: it is a request
// of its own, so that it is classified, stored, limited, counted and learned from as any
// other.
func (r *planRun) call(ctx context.Context, c plan.Call) plan.Result {
	if err := r.may(c); err != nil {
		return plan.Result{Err: err.Error()}
	}
	params := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, c.Step.Tool.Name))
	params = jsonrpc.Set(params, "arguments", c.Arguments)
	if r.meta != nil {
		params = jsonrpc.Set(params, "_meta", r.meta)
	}
	to := &stepOutlet{work: r.work}
	x := &request{
		s: r.s,
		msg: &front.Message{
			Message: jsonrpc.Message{ID: []byte("0"), Method: "tools/call", Params: params}, Index: revision.NewParams(params),
		},
		key: fmt.Sprintf("plan %d call %d", r.number, r.calls.Add(1)), // no id of a client's looks like that
		to:  to, stateless: r.work.began.stateless, hop: r.work.began.hop,
		work: r.work, part: &planPart{plan: r.number, step: c.Step.ID, needs: r.needs(c.Step)},
	}
	if c.Step.Writes || r.plan.Discloses(c.Step) != nil {
		x.part.gate = func() (again <-chan struct{}, err error) {
			if _, back := r.work.attended(); back != nil { // its client has no request open, which it could withdraw
				return back, nil
			}
			return nil, r.may(c)
		}
	}
	if err := x.admit(ctx); err != nil {
		return plan.Result{Err: err.Message}
	}
	func() {
		defer x.leave()
		x.serve()
	}()
	return to.result(ctx, x.part.doubt.Load())
}

// may refuses a call that may change something or tells third parties what others
// returned, if its plan was not let through for one: its arguments were not known then,
// or the rules have changed.
func (r *planRun) may(c plan.Call) error {
	p := &r.s.srv.policy.Load().Plans
	if !p.Enabled {
		return errors.New("not called: plans have been switched off meanwhile ([plan].enabled)")
	}
	was, now := r.servers[c.Step.Tool.Name], r.serverOf(c.Step.Tool.Name)
	told := r.plan.Discloses(c.Step)
	if (c.Step.Writes || told != nil) && was != now && was != "" && now != "" {
		return errors.New("not called: another server has taken the place of the one that the plan was meant for")
	}
	if told != nil && r.confirmed[c.Step].told == nil {
		return fmt.Errorf("not called: it tells third parties %s, which was not known before, so the user has not confirmed it", outcomes(told))
	}
	mutations := p.Mutations
	agreed := c.Step.Writes && (mutations == "allow" || mutations == "confirm" && r.confirmed[c.Step].writes)
	if agreed || !c.Step.Tool.Writes(c.Arguments) {
		return nil
	}
	return fmt.Errorf("not called: it may change something, which could not be told before ([plan].mutations = %q)", mutations)
}

// serverOf names the server of a tool together with how it is reached; "": none.
func (r *planRun) serverOf(tool string) string {
	_, l := r.s.named(r.s.srv.policy.Load(), upstream.Tools, tool)
	if l == nil {
		return ""
	}
	return l.member.key
}

// result is what a plan makes of the answer. doubt: the call may have been run although
// it failed.
func (o *stepOutlet) result(ctx context.Context, doubt bool) plan.Result {
	if o.line == nil {
		return plan.Result{Err: context.Cause(ctx).Error(), Doubt: doubt}
	}
	m, err := jsonrpc.Parse(o.line)
	switch {
	case err != nil:
		return plan.Result{Err: err.Error(), Doubt: true}
	case m.Error != nil:
		return plan.Result{Err: message(m.Error), Doubt: doubt}
	}
	out := stepResult(m.Result)
	out.Doubt = out.Err != "" && (doubt || goesOn(m.Result) || hollow(m.Result))
	return out
}

// stepOutlet is where the answer to one call of a plan goes. What is said besides
// goes to the client, with the request that the plan is served for.
type stepOutlet struct {
	work *work
	line []byte // the answer; nil: there was none
}

var errNoRequest = errors.New("the client has no request open for its plan")

func (o *stepOutlet) Send(line []byte) error {
	x, _ := o.work.attended()
	if x == nil || x.isAnswered() {
		return errNoRequest
	}
	return x.to.Send(line)
}

func (o *stepOutlet) Answer(line []byte) error {
	o.line = bytes.Clone(line)
	return nil
}

// stepResult is what a plan makes of a tool's result: what is structured, else the
// text, as JSON if it is some. It keeps no more of the answer than that, for a plan
// counts what its results hold.
func stepResult(result []byte) plan.Result {
	out := plan.Result{Bytes: len(result), Source: "fetched"}
	var structured []byte
	var texts []string
	var resources [][]byte // with a text
	failed := false
	for m := range jsonrpc.Members(result) {
		switch string(m.Name) {
		case "structuredContent":
			structured = m.Value
		case "isError":
			failed = failed || string(m.Value) != "false" && string(m.Value) != "null"
		case "_meta":
			if how, ok := jsonrpc.String(jsonrpc.Get(m.Value, metaDisposition)); ok {
				out.Source = how
			}
		case "content":
			for block := range jsonrpc.Elements(m.Value) {
				resource := jsonrpc.Get(block, "resource")
				if text, ok := jsonrpc.String(jsonrpc.Get(block, "text")); ok && string(jsonrpc.Get(block, "type")) == `"text"` {
					texts = append(texts, text)
				} else if jsonrpc.Get(resource, "text") != nil {
					resources = append(resources, resource)
				} else {
					out.Blocks = append(out.Blocks, bytes.Clone(block))
				}
			}
		}
	}
	text := strings.Join(texts, "\n")
	switch {
	case goesOn(result):
		out.Err = "the call goes on as a task, which a plan does not wait for"
	case hollow(result):
		out.Err = "the answer is no result of a tool: it has no content"
	case failed:
		out.Err = text
		if text == "" {
			out.Err = "the tool failed and did not say why"
		}
	case structured != nil && string(structured) != "null":
		out.JSON = bytes.Clone(structured)
		if len(texts) == 1 {
			out.Text = text // where a text is wanted: often it is what the structure wraps
		}
	case len(resources) > 0:
		out.JSON, out.Text = withResources(texts, resources)
	default:
		if out.JSON = parsed(texts); out.JSON != nil {
			out.Text = text
		} else {
			out.JSON = jsonrpc.AppendString(nil, text)
		}
	}
	return out
}

// withResources is the value of a result with embedded resources that are text: of a
// file, the name and what stands in it. So they can be referred to, and count. Where
// a text is wanted it is that of the only one.
func withResources(texts []string, resources [][]byte) (value []byte, text string) {
	value = jsonrpc.Set(nil, "text", jsonrpc.AppendString(nil, strings.Join(texts, "\n")))
	all := []byte("[")
	for i, r := range resources {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, r...)
	}
	if len(resources) == 1 {
		text, _ = jsonrpc.String(jsonrpc.Get(resources[0], "text"))
	}
	return jsonrpc.Set(value, "resources", append(all, ']')), text
}

// parsed is what the texts of a result are as JSON: the value of the only one, or,
// of several objects or arrays, such as the rows of a table, an array of them. nil:
// they are text.
func parsed(texts []string) []byte {
	if len(texts) == 1 && jsonrpc.Valid([]byte(texts[0])) {
		return []byte(strings.TrimSpace(texts[0]))
	}
	if len(texts) < 2 {
		return nil
	}
	var all []byte
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if text == "" || text[0] != '{' && text[0] != '[' || !jsonrpc.Valid([]byte(text)) {
			return nil
		}
		all = append(append(all, ','), text...)
	}
	all[0] = '['
	return append(all, ']')
}

// hollow reports whether a result is not what a tool's must be: it does not say what has
// been done.
func hollow(result []byte) bool {
	return jsonrpc.Get(result, "content") == nil && jsonrpc.Get(result, "structuredContent") == nil
}

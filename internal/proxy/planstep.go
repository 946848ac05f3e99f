package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
)

// call makes one call of a plan, the way a client's call is made: it is an exchange
// of its own, so that it is judged, stored, limited, counted and learned from as any
// other.
func (r *planRun) call(ctx context.Context, c plan.Call) plan.Result {
	if err := r.may(c); err != nil {
		return plan.Result{Err: err.Error()}
	}
	params := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, c.Step.Tool.Name))
	params = jsonrpc.Set(params, "arguments", c.Arguments)
	doubt := false // of what was sent before
	for asked := params; ; {
		result, doubtful, again := r.exchange(ctx, c.Step.ID, asked)
		doubt = doubt || doubtful
		if again == nil {
			result.Doubt = result.Err != "" && doubt
			return result
		}
		responses, err := r.inputs(ctx, c.Step.ID, jsonrpc.Get(again, "inputRequests"))
		if err != nil {
			return plan.Result{Err: err.Message, Doubt: true}
		}
		doubt = true // it may have begun before it asked
		asked = params
		if responses != nil {
			asked = jsonrpc.Set(asked, "inputResponses", responses)
		}
		if state := jsonrpc.Get(again, "requestState"); state != nil {
			asked = jsonrpc.Set(asked, "requestState", state)
		}
	}
}

// may refuses a call that may change something, if its plan was not let through for
// one: its arguments were not known then, or the rules have changed.
func (r *planRun) may(c plan.Call) error {
	mutations := r.s.srv.policy.Load().Plans.Mutations
	if mutations == "allow" || c.Step.Writes && mutations == "confirm" || !c.Step.Tool.Writes(c.Arguments) {
		return nil
	}
	return fmt.Errorf("not called: it may change something, which could not be told before ([plan].mutations = %q)", mutations)
}

// exchange makes the call once. again is a result that asks for input.
func (r *planRun) exchange(ctx context.Context, step string, params []byte) (result plan.Result, doubt bool, again []byte) {
	r.mu.Lock()
	r.calls++
	key := fmt.Sprintf("plan %d call %d", r.number, r.calls) // no id of a client's looks like that
	r.mu.Unlock()
	to := &stepOutlet{r: r}
	x := &exchange{
		job: job{s: r.s, method: "tools/call", params: params, step: true},
		msg: jsonrpc.Message{ID: []byte("0"), Method: "tools/call", Params: params}, key: key, to: to,
		stateless: r.stateless, hop: r.hop,
	}
	if err := x.admit(ctx); err != nil {
		return plan.Result{Err: err.Message}, false, nil
	}
	func() {
		defer x.leave()
		x.serve()
	}()
	doubt = x.doubt.Load()
	if to.line == nil {
		return plan.Result{Err: context.Cause(ctx).Error()}, doubt, nil
	}
	m, err := jsonrpc.Parse(to.line)
	switch {
	case err != nil:
		return plan.Result{Err: err.Error()}, true, nil
	case m.Error != nil:
		return plan.Result{Err: message(m.Error)}, doubt, nil
	case revision.InputRequired(m.Result):
		return plan.Result{}, doubt, m.Result
	}
	result = stepResult(m.Result)
	return result, doubt || goesOn(m.Result), nil
}

// inputs asks the client for what a server wants to know; nil if that is nothing.
func (r *planRun) inputs(ctx context.Context, step string, requests []byte) ([]byte, *jsonrpc.Error) {
	var questions []asked
	var names []string
	for m := range jsonrpc.Members(requests) {
		method, _ := jsonrpc.String(jsonrpc.Get(m.Value, "method"))
		questions = append(questions, asked{step, method, jsonrpc.Get(m.Value, "params")})
		names = append(names, string(m.Name))
	}
	if questions == nil {
		return nil, nil
	}
	answers, err := r.ask(ctx, questions)
	if err != nil {
		return nil, err
	}
	var out []byte
	for i, answer := range answers {
		out = jsonrpc.Set(out, names[i], answer)
	}
	return out, nil
}

// stepOutlet is where the answer to one call of a plan goes. What is said besides
// goes to the client, with the request that the plan is served for.
type stepOutlet struct {
	r    *planRun
	line []byte // the answer; nil: there was none
}

var errNobody = errors.New("the client has no request open for its plan")

func (o *stepOutlet) Send(line []byte) error {
	x := o.r.current()
	if x == nil || x.isAnswered() {
		return errNobody
	}
	return x.to.Send(line)
}

func (o *stepOutlet) Answer(line []byte) error {
	o.line = bytes.Clone(line)
	return nil
}

// stepResult is what a plan makes of a tool's result: what is structured, else the
// text, as JSON if it is some.
func stepResult(result []byte) plan.Result {
	out := plan.Result{Bytes: len(result), Source: "fetched"}
	var structured []byte
	var texts []string
	failed := false
	for m := range jsonrpc.Members(result) {
		switch string(m.Name) {
		case "structuredContent":
			structured = m.Value
		case "isError":
			failed = string(m.Value) == "true"
		case "_meta":
			if how, ok := jsonrpc.String(jsonrpc.Get(m.Value, metaDisposition)); ok {
				out.Source = how
			}
		case "content":
			for block := range jsonrpc.Elements(m.Value) {
				if text, ok := jsonrpc.String(jsonrpc.Get(block, "text")); ok && string(jsonrpc.Get(block, "type")) == `"text"` {
					texts = append(texts, text)
				} else {
					out.Blocks = append(out.Blocks, block)
				}
			}
		}
	}
	text := strings.Join(texts, "\n")
	switch {
	case goesOn(result):
		out.Err = "the call goes on as a task, which a plan does not wait for"
	case failed:
		out.Err = text
		if text == "" {
			out.Err = "the tool failed and did not say why"
		}
	case structured != nil && string(structured) != "null":
		out.JSON = structured
	case len(texts) == 1 && jsonrpc.Valid([]byte(text)):
		out.JSON, out.Text = []byte(strings.TrimSpace(text)), text
	default:
		out.JSON = jsonrpc.AppendString(nil, text)
	}
	return out
}

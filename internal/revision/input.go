package revision

import (
	"bytes"

	"mcpschedd/internal/jsonrpc"
)

// InputRequest is a question to a client. A server of the handshake era sends it as a request
// while it runs a call. A stateless server ends the call with an input_required result, which
// has the questions, and the client repeats the call with the answers (multi round-trip
// requests).
type InputRequest struct {
	Key    string // in inputRequests; in the handshake era the raw id of the request
	Method string
	Params []byte // raw; nil if there are none
}

// InputRequests returns the questions in an input_required result.
func InputRequests(result []byte) (all []InputRequest) {
	for m := range jsonrpc.Members(jsonrpc.Get(result, "inputRequests")) {
		all = append(all, InputRequest{Key: string(m.Name), Method: jsonrpc.Text(m.Value, "method"), Params: jsonrpc.Get(m.Value, "params")})
	}
	return all
}

// InputResult returns the input_required result with the questions and a requestState.
func InputResult(questions []InputRequest, state string) []byte {
	requests := []byte("{}")
	for _, q := range questions {
		request := jsonrpc.Set(nil, "method", jsonrpc.AppendString(nil, q.Method))
		if q.Params != nil {
			request = jsonrpc.Set(request, "params", q.Params)
		}
		requests = jsonrpc.Set(requests, q.Key, request)
	}
	result := jsonrpc.Set([]byte(`{"resultType":"input_required"}`), "inputRequests", requests)
	return jsonrpc.Set(result, "requestState", jsonrpc.AppendString(nil, state))
}

// WithInput returns the params that repeat a call after its input_required result. responses
// is the object of the answers; nil if the result has no questions.
func WithInput(params, result, responses []byte) []byte {
	if params == nil {
		params = []byte("{}")
	}
	if responses != nil {
		params = jsonrpc.Set(params, "inputResponses", responses)
	}
	if state := jsonrpc.Get(result, "requestState"); state != nil {
		params = jsonrpc.Set(params, "requestState", state)
	}
	return params
}

// Accepts reports whether the client declares that it answers requests of a method.
func (c *Client) Accepts(method string) bool {
	needed := map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}[method]
	declared := jsonrpc.Get(c.Capabilities, needed)
	return needed == "" || declared != nil && string(declared) != "null"
}

// ElicitsByForm reports whether the client declares elicitation by form. An empty elicitation
// capability means by form.
func (c *Client) ElicitsByForm() bool {
	elicitation := jsonrpc.Get(c.Capabilities, "elicitation")
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return bytes.HasPrefix(elicitation, []byte("{")) && !onlyURLs
}

package proxy

import (
	"errors"
	"fmt"

	"mcpschedd/internal/jsonrpc"
)

// canElicit reports whether the client of a request said that it can ask its user. One that
// says no more of it than that it can, can by a form.
func (x *request) canElicit() bool {
	capabilities := x.hop.Capabilities
	if !x.stateless {
		capabilities = x.s.client.facts().Capabilities
	}
	elicitation := object(jsonrpc.Get(capabilities, "elicitation"))
	onlyURLs := jsonrpc.Get(elicitation, "url") != nil && jsonrpc.Get(elicitation, "form") == nil
	return elicitation != nil && !onlyURLs
}

// errUnread is why something was not confirmed that its client did not put to a user, as one
// does that runs without any.
var errUnread = errors.New("the client closed the question without an answer")

// errDeclined is why something is not done that the user was asked about.
var errDeclined = errors.New("the user declined it; nothing was called")

// confirm puts a message to the user of the client that the work is done for, who may agree;
// nil: that was done. The work is suspended meanwhile where its client is stateless.
func (w *work) confirm(message string) error {
	params := jsonrpc.Set(nil, "message", jsonrpc.AppendString(nil, message))
	params = jsonrpc.Set(params, "requestedSchema", []byte(`{"type":"object","properties":{}}`))
	answer, failed := w.began.s.askOne(w.ctx, w.began.way("confirm."), newQuestion("elicitation/create", params))
	if failed != nil {
		return fmt.Errorf("it could not be confirmed: %s", failed.Message)
	}
	switch action, _ := jsonrpc.String(jsonrpc.Get(answer, "action")); action {
	case "accept":
		return nil
	case "decline":
		return errDeclined
	}
	return errUnread
}

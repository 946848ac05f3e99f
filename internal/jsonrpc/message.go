// Package jsonrpc handles JSON-RPC 2.0 messages as bytes.
//
// The one idea: a proxy rarely needs to know what a message says, only where its
// parts are. [Parse] looks at every byte once, proves that the message is JSON
// and valid UTF-8, and returns slices of it. Nothing is decoded, so nothing can
// be lost or changed on the way: numbers keep their digits, objects their order,
// strings their escapes.
//
//	m, err := jsonrpc.Parse(line)
//	if err == nil && m.IsRequest() {
//		name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
//		out.Send(jsonrpc.AppendResult(nil, m.ID, answer(name)))
//	}
//
// [Members], [Elements], [Get], [Set] and [Delete] work on the parts of a parsed
// message and trust them to be valid; an [Index] answers several questions about
// one part from a single walk. [Reader] and [Writer] carry messages as lines.
//
// It leaves out what messages mean: pairing answers with requests, MCP's methods
// and revisions, and batches (an array of messages is split with [Elements]).
package jsonrpc

import "strconv"

// Message is one JSON-RPC 2.0 message. Its members are slices of Raw without
// spare capacity: appending to one never writes into another.
type Message struct {
	Raw    []byte // the whole message as given to Parse
	ID     []byte // raw JSON string or number; nil if absent; null only in an error response
	Method string // "" for a response
	Params []byte // raw JSON object; nil if absent or null
	Result []byte // raw JSON value; nil if absent
	Error  []byte // raw JSON object; nil if absent
	// Buffer is the borrowed line that Raw is, to be released; nil: it is not
	// borrowed. Parse does not know it.
	Buffer *Buffer

	resultAt int // where Result begins in Raw
}

// IsRequest says whether m asks for an answer.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification says whether m is a call that must not be answered.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse says whether m is an answer. An error response may lack the ID or
// have the ID null: its sender could not tell which request it belongs to.
func (m *Message) IsResponse() bool {
	return m.Method == "" && (m.Result != nil || m.Error != nil)
}

// Parse finds the members of the message in raw, without decoding. It accepts
// exactly the JSON that [Valid] accepts.
//
// An error is always a *[Error] to answer with: [CodeParse] if raw is not JSON,
// [CodeInvalidRequest] if it is not a JSON-RPC 2.0 message (an array is none),
// [CodeInvalidParams] if the params of a call are no object. The Message then
// holds what was found up to there, so that the ID can be answered and a broken
// response (not to be answered at all) told from a broken request. Where
// raw is not JSON and the ID nil, [SalvageID] may still find it.
func Parse(raw []byte) (Message, error) {
	p := parser{m: Message{Raw: raw}}
	i := space(raw, 0)
	isObject := i < len(raw) && raw[i] == '{'
	if isObject {
		i = scanObject(raw, i, 1, p.member)
	} else {
		i = scanValue(raw, i, 1)
	}
	if i >= 0 {
		if i = space(raw, i); i < len(raw) {
			i = ^i
		}
	}
	if i < 0 {
		return p.m, &Error{Code: CodeParse, Message: "parse error: not JSON at byte " + strconv.Itoa(^i)}
	}
	if !isObject {
		return p.m, invalid("a message is an object")
	}
	if err := p.check(); err != nil {
		return p.m, err
	}
	return p.m, nil
}

// parser collects the members of an envelope.
type parser struct {
	m        Message
	seen     members
	repeated members
	version  bool   // "jsonrpc" is "2.0"
	null     []byte // the id as written, if it is null
}

// members is a set of the envelope's members.
type members uint8

const (
	memberVersion members = 1 << iota
	memberID
	memberMethod
	memberParams
	memberResult
	memberError
)

// memberNamed says which member of the envelope has this name; 0 if none.
func memberNamed(name []byte) members {
	switch string(name) {
	case "jsonrpc":
		return memberVersion
	case "id":
		return memberID
	case "method":
		return memberMethod
	case "params":
		return memberParams
	case "result":
		return memberResult
	case "error":
		return memberError
	}
	return 0
}

// member keeps the member of the envelope that stands there.
func (p *parser) member(at place) {
	value := at.of(p.m.Raw)
	member := memberNamed(at.name(p.m.Raw))
	p.repeated |= p.seen & member
	p.seen |= member
	switch member {
	case memberVersion:
		p.version = string(value) == `"2.0"` || is(value, "2.0")
	case memberID:
		switch {
		case p.repeated&memberID != 0:
			p.m.ID, p.null = nil, nil // which of them is meant cannot be told
		case beginsID(value[0]):
			p.m.ID = value
		case value[0] == 'n':
			p.null = value
		}
	case memberMethod:
		p.m.Method, _ = String(value)
	case memberParams:
		if value[0] != 'n' {
			p.m.Params = value
		}
	case memberResult:
		p.m.Result, p.m.resultAt = value, at.value
	case memberError:
		p.m.Error = value
	}
}

// check applies the rules of JSON-RPC 2.0 to the whole envelope.
func (p *parser) check() error {
	m := &p.m
	has := func(member members) bool { return p.seen&member != 0 }
	if has(memberError) && p.null != nil {
		m.ID = p.null
	}
	switch {
	case p.repeated != 0:
		return invalid("a member of the envelope is repeated")
	case !p.version:
		return invalid(`"jsonrpc" is not "2.0"`)
	case has(memberID) && m.ID == nil:
		return invalid(`"id" is neither a string nor a number`)
	case has(memberMethod):
		return p.checkCall()
	}
	m.Params = nil
	switch {
	case has(memberResult) && has(memberError):
		return invalid(`both "result" and "error"`)
	case has(memberResult) && m.ID == nil:
		return invalid(`"result" without "id"`)
	case has(memberError) && m.Error[0] != '{':
		return invalid(`"error" is not an object`)
	case p.seen&(memberResult|memberError) == 0:
		return invalid(`no "method", "result" or "error"`)
	}
	return nil
}

func (p *parser) checkCall() error {
	switch {
	case p.seen&(memberResult|memberError) != 0:
		return invalid(`"method" together with "result" or "error"`)
	case p.m.Method == "":
		return invalid(`"method" is empty or not a string`)
	case p.m.Params != nil && p.m.Params[0] != '{':
		return &Error{Code: CodeInvalidParams, Message: `invalid params: not an object`}
	}
	return nil
}

// beginsID says whether a value that begins so is a string or a number.
func beginsID(c byte) bool { return c == '"' || c == '-' || '0' <= c && c <= '9' }

// is says whether the value is the string s, however it is escaped.
func is(value []byte, s string) bool {
	text, ok := String(value)
	return ok && text == s
}

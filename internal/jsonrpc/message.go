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

import (
	"slices"
	"strconv"
)

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

	resultAt int    // where Result begins in Raw
	index    *Index // of Params or Result, made in the walk over Raw; nil: they are short
}

// Index is that of a part of m, Params or Result: without another walk over what is long,
// unless something else has been put in its place.
func (m *Message) Index(part []byte) Index {
	if m.index != nil && identical(m.index.obj, part) {
		return *m.index
	}
	return NewIndex(part)
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
// holds what was found up to there, and an ID from behind that where it can be told, so
// that the ID can be answered and a broken response (not to be answered at all) told
// from a broken request.
func Parse(raw []byte) (Message, error) {
	p := parser{raw: raw}
	i := space(raw, 0)
	isObject := i < len(raw) && raw[i] == '{'
	if isObject {
		i = scanObject(raw, i, 1, p.member, p.inner)
	} else {
		i = scanValue(raw, i, 1)
	}
	if i >= 0 {
		if i = space(raw, i); i < len(raw) {
			i = ^i
		}
	}
	m := p.message()
	switch {
	case i < 0:
		if m.ID == nil {
			m.ID = salvageID(raw)
		}
		return m, &Error{Code: CodeParse, Message: "parse error: not JSON at byte " + strconv.Itoa(^i)}
	case !isObject:
		return m, invalid("a message is an object")
	}
	if err := p.check(&m); err != nil {
		return m, err
	}
	return m, nil
}

// parser collects the members of an envelope, as they are written; nil: there is none.
type parser struct {
	raw                                        []byte
	version, id, method, params, result, error []byte
	resultAt                                   int
	repeated, repeatedID                       bool              // a member is there twice
	inside                                     [mostInside]place // members of the member that is scanned
	insides                                    int               // how many it has
	index                                      *Index            // of the params, or the result
}

// Of params and results of at least so many bytes, and at most so many members, an index
// is made on the way: a walk over fewer bytes costs less than that.
//
// Measured: another walk over text of 100 KB takes 4 µs, but over 1 MB of JSON that is
// quoted in a text 6.3 ms, where all of Parse takes 4.4.
const (
	leastIndexed = 4 << 10
	mostInside   = 8
)

// inner keeps the place of a member of a member.
func (p *parser) inner(at place) {
	if p.insides < mostInside {
		p.inside[p.insides] = at
	}
	p.insides++
}

// indexed makes the index of the object at that place, of which so many members were kept.
func (p *parser) indexed(at place, members int) {
	if at.valueEnd-at.value < leastIndexed || members > mostInside {
		return
	}
	p.index = &Index{obj: at.of(p.raw), places: slices.Clone(p.inside[:members])}
	for i := range p.index.places {
		p.index.places[i].shift(-at.value)
	}
}

// member keeps the member of the envelope that stands there.
func (p *parser) member(at place) {
	var member *[]byte
	inside := p.insides
	p.insides = 0
	switch string(at.name(p.raw)) {
	case "jsonrpc":
		member = &p.version
	case "id":
		member = &p.id
		p.repeatedID = p.id != nil
	case "method":
		member = &p.method
	case "params":
		member = &p.params
		p.indexed(at, inside)
	case "result":
		member = &p.result
		p.resultAt = at.value
		p.indexed(at, inside)
	case "error":
		member = &p.error
	default:
		return
	}
	p.repeated = p.repeated || *member != nil
	*member = at.of(p.raw)
}

// message returns what was found of the message.
func (p *parser) message() Message {
	m := Message{Raw: p.raw, Result: p.result, Error: p.error, resultAt: p.resultAt, index: p.index}
	m.Method, _ = String(p.method)
	if p.params != nil && p.params[0] != 'n' {
		m.Params = p.params
	}
	if p.id != nil && !p.repeatedID && beginsID(p.id[0]) { // of two ids it cannot be told which is meant
		m.ID = p.id
	}
	return m
}

// check applies the rules of JSON-RPC 2.0 to the whole envelope.
func (p *parser) check(m *Message) error {
	if p.error != nil && string(p.id) == "null" {
		m.ID = p.id
	}
	switch {
	case p.repeated:
		return invalid("a member of the envelope is repeated")
	case !is(p.version, "2.0"):
		return invalid(`"jsonrpc" is not "2.0"`)
	case p.id != nil && m.ID == nil:
		return invalid(`"id" is neither a string nor a number`)
	case p.method != nil && (p.result != nil || p.error != nil):
		return invalid(`"method" together with "result" or "error"`)
	case p.method != nil && m.Method == "":
		return invalid(`"method" is empty or not a string`)
	case p.method != nil && m.Params != nil && m.Params[0] != '{':
		return &Error{Code: CodeInvalidParams, Message: `invalid params: not an object`}
	case p.method != nil:
		return nil
	}
	m.Params = nil
	switch {
	case p.result != nil && p.error != nil:
		return invalid(`both "result" and "error"`)
	case p.result != nil && m.ID == nil:
		return invalid(`"result" without "id"`)
	case p.error != nil && p.error[0] != '{':
		return invalid(`"error" is not an object`)
	case p.result == nil && p.error == nil:
		return invalid(`no "method", "result" or "error"`)
	}
	return nil
}

// beginsID says whether a value that begins so is a string or a number.
func beginsID(c byte) bool { return c == '"' || c == '-' || '0' <= c && c <= '9' }

// is says whether the value is the string s, however it is escaped.
func is(value []byte, s string) bool {
	if !escaped(value) {
		return len(value) == len(s)+2 && string(value[1:len(value)-1]) == s && value[0] == '"'
	}
	text, ok := String(value)
	return ok && text == s
}

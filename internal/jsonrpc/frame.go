package jsonrpc

import (
	"fmt"
	"strconv"
)

// Error codes defined by JSON-RPC 2.0.
const (
	CodeParse          = -32700 // not JSON
	CodeInvalidRequest = -32600 // JSON, but not a message
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Error is the error object of a response.
type Error struct {
	Code    int
	Message string
	Data    []byte // raw JSON; nil if absent
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ReadError decodes an error object. A code that is not a number counts as CodeInternal.
func ReadError(object []byte) *Error {
	code, err := strconv.Atoi(string(Get(object, "code")))
	if err != nil {
		code = CodeInternal
	}
	return &Error{Code: code, Message: Text(object, "message"), Data: Get(object, "data")}
}

// Append appends e as a JSON object.
func (e *Error) Append(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

func invalid(cause string) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "invalid request: " + cause}
}

// AppendRequest appends a request without a line end. Nil params are omitted.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	return appendParams(AppendRequestHead(dst, id, method), params)
}

// AppendRequestHead appends a request without params and without its closing brace.
func AppendRequestHead(dst, id []byte, method string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"method":`...)
	return AppendString(dst, method)
}

// AppendNotification appends a notification without a line end. Nil params are
// omitted.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	return appendParams(AppendString(dst, method), params)
}

func appendParams(dst, params []byte) []byte {
	if params != nil {
		dst = AppendMember(dst, "params", params)
	}
	return append(dst, '}')
}

// AppendResult appends the response to the request id without a line end. A nil
// result becomes {}, MCP's empty result.
func AppendResult(dst, id, result []byte) []byte {
	dst = appendResultHead(dst, id)
	if result == nil {
		dst = append(dst, '{', '}')
	}
	dst = append(dst, result...)
	return append(dst, '}')
}

func appendResultHead(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// AppendError appends the error response to the request id without a line end. A nil
// id, for a request with an unreadable id, becomes null. errObject is a raw JSON object.
func AppendError(dst, id, errObject []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		dst = append(dst, "null"...)
	}
	dst = append(dst, id...)
	dst = append(dst, `,"error":`...)
	dst = append(dst, errObject...)
	return append(dst, '}')
}

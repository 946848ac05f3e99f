package jsonrpc_test

import (
	"testing"

	"mcpschedd/internal/jsonrpc"
)

func TestFrames(t *testing.T) {
	fault := (&jsonrpc.Error{Code: -32000, Message: `no "x"`, Data: []byte(`{"a":1}`)}).Append(nil)
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{"request", jsonrpc.AppendRequest(nil, []byte("1"), "ping", nil), `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		{"request with params", jsonrpc.AppendRequest(nil, []byte(`"a"`), "a\"b", []byte("{}")), `{"jsonrpc":"2.0","id":"a","method":"a\"b","params":{}}`},
		{"notification", jsonrpc.AppendNotification(nil, "a", nil), `{"jsonrpc":"2.0","method":"a"}`},
		{"notification with params", jsonrpc.AppendNotification(nil, "a", []byte(`{"b":1}`)), `{"jsonrpc":"2.0","method":"a","params":{"b":1}}`},
		{"result", jsonrpc.AppendResult(nil, []byte("1"), []byte(`[ 1]`)), `{"jsonrpc":"2.0","id":1,"result":[ 1]}`},
		{"empty result", jsonrpc.AppendResult(nil, []byte("1"), nil), `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"error", jsonrpc.AppendError(nil, []byte("1"), fault), `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no \"x\"","data":{"a":1}}}`},
		{"error without id", jsonrpc.AppendError(nil, nil, (&jsonrpc.Error{Code: 5}).Append(nil)), `{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":""}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if string(test.got) != test.want {
				t.Errorf("got %s, want %s", test.got, test.want)
			}
			if _, err := jsonrpc.Parse(test.got); err != nil {
				t.Errorf("parse: %v", err)
			}
		})
	}
	if got, want := string(jsonrpc.AppendResult([]byte("before "), []byte("1"), nil)), `before {"jsonrpc":"2.0","id":1,"result":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := (&jsonrpc.Error{Code: -32601, Message: "no such method"}).Error(), "no such method (-32601)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

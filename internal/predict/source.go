package predict

import (
	"bytes"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// source is what the bindings of a call's follow-ups read.
type source struct {
	arguments []byte // of the call, canonical
	answer    Result
	result    document        // what of the answer is JSON
	looked    bool            // for it
	text      *document       // what its text says; nil: nobody has asked
	lists     map[string]list // binding → what it leads to: several follow-ups often read the same
}

// list is what one argument may be.
type list struct {
	values []value
	cut    bool // there may be more
}

// list is what a binding leads to.
func (in *source) list(a *argument) list {
	l, known := in.lists[a.text]
	if !known {
		l.values, l.cut = find(in.of(a.binding.From), a.binding.Path)
		if in.lists == nil {
			in.lists = make(map[string]list)
		}
		in.lists[a.text] = l
	}
	return l
}

// document is a JSON value; of none there is nothing to be found.
type document struct {
	json []byte
	cut  bool // it is what is whole of the beginning of one
}

// of is the document that bindings of a kind read.
func (in *source) of(from valuemodel.From) document {
	switch from {
	case valuemodel.Args:
		return document{json: in.arguments}
	case valuemodel.Text:
		if in.text == nil {
			in.text = new(said(in.answer))
		}
		return *in.text
	}
	if !in.looked {
		in.looked = true
		in.result = in.document()
	}
	return in.result
}

// document is the result as JSON: its structured content, else its text if that is
// JSON. Of what is cut, or longer than is read, it is the part that is whole.
func (in *source) document() document {
	if in.answer.Unread {
		return document{}
	}
	part := in.answer.Structured
	if len(part) == 0 {
		part = in.answer.Text
	}
	if len(part) <= mostRead && jsonrpc.Valid(part) {
		return document{json: bytes.TrimSpace(part)}
	}
	whole, ok := mend(part[:min(len(part), mostRead)], false)
	if !ok {
		return document{}
	}
	return document{whole, true}
}

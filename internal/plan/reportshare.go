package plan

import (
	"cmp"
	"slices"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// output is a result that comes back, and what of it does.
type output struct {
	*Status
	chars  int            // of the whole
	text   []byte         // what comes back
	left   []excerpt.Left // what does not
	handle string         // to the whole; "": it was not kept yet
}

// share cuts the results so that together they fit: the smallest first, each to an
// equal share of what those before it have left.
func (a *answering) share(left room) {
	rising := slices.SortedStableFunc(slices.Values(a.outputs), func(x, y *output) int {
		return cmp.Compare(x.most(), y.most())
	})
	for i, o := range rising {
		n := len(rising) - i
		each := room{left.tokens / n, left.chars / n}
		if o.Step.MaxTokens > 0 {
			each.tokens = min(each.tokens, o.Step.MaxTokens)
		}
		left = left.less(a.cut(o, each))
	}
}

// most is how many tokens of a result may come back.
func (o *output) most() int {
	if o.Step.MaxTokens > 0 {
		return min(o.Tokens, o.Step.MaxTokens)
	}
	return o.Tokens
}

// cut cuts a result, and returns what it takes with its name.
func (a *answering) cut(o *output, most room) room {
	name := jsonrpc.AppendString(nil, o.Step.ID)
	most = most.less(a.size(name)).less(room{2, 2}) // the colon and the comma
	whole := room{o.Tokens, o.chars}
	if whole.within(most) {
		o.text, o.left = o.Result.JSON, nil
	} else {
		o.text, o.left = excerpt.Cut(o.Result.JSON, excerpt.Limit{Tokens: max(most.tokens, 1), Chars: max(most.chars, 1), Count: a.count})
		o.summarize()
		whole = a.size(o.text)
	}
	taken := a.size(name)
	return room{whole.tokens + taken.tokens + 2, whole.chars + taken.chars + 2}
}

// summarize bounds what is named: the first parts, and the rest as one.
func (o *output) summarize() {
	kept := o.left[:0]
	rest := excerpt.Left{What: "more"}
	for _, l := range o.left {
		if len(kept) < maxLeft && len(l.Pointer) <= maxPointer {
			kept = append(kept, l)
			continue
		}
		rest.Count += l.Count
		rest.Bytes += l.Bytes
	}
	if o.left = kept; rest.Bytes > 0 {
		o.left = append(o.left, rest)
	}
}

// omit leaves all of a result out.
func (o *output) omit(named bool) {
	if o.text, o.left = nil, nil; named {
		o.left = []excerpt.Left{{What: "all", Count: 1, Bytes: len(o.Result.JSON)}}
	}
}

// appendLeft names a part that is left out, and where to read it.
func (a *answering) appendLeft(text []byte, o *output, l excerpt.Left) []byte {
	if o.handle == "" && a.keep != nil {
		o.handle = a.keep(o.Step.ID, Value{JSON: o.Result.JSON, Text: o.Result.Text})
	}
	text = jsonrpc.AppendString(append(text, `{"step":`...), o.Step.ID)
	text = jsonrpc.AppendString(append(text, `,"pointer":`...), l.Pointer)
	text = jsonrpc.AppendString(append(text, `,"what":`...), l.What)
	if l.From > 0 {
		text = appendNumber(text, "offset", int64(l.From))
	}
	text = appendNumber(text, "count", int64(l.Count))
	text = appendNumber(text, "bytes", int64(l.Bytes))
	if o.handle != "" {
		text = jsonrpc.AppendString(append(text, `,"handle":`...), o.handle)
	}
	return append(text, '}')
}

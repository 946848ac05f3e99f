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
	chars int            // of the whole
	name  room           // that its name takes, once it is known
	text  []byte         // what comes back; nil: nothing
	left  []excerpt.Left // what does not and is named
}

// What a result takes at least if it is cut, or it is left out: its name, a piece
// worth reading and a word about the rest.
const (
	leastTokens, leastChars = 40, 140
	entryTokens, entryChars = 24, 80 // of these for the word about the rest
)

// share cuts the results so that together they fit: the smallest first, each to an
// equal share of what those before it have left. Of too many the largest are left
// out; it is false if all are.
func (a *answering) share(left room) bool {
	rising := slices.SortedStableFunc(slices.Values(a.outputs), func(x, y *output) int {
		return cmp.Compare(x.most(), y.most())
	})
	n := len(rising)
	for n > 0 && !a.worthwhile(rising[:n], left) {
		n--
	}
	for i, o := range rising[:n] {
		left = left.less(a.cut(o, room{left.tokens / (n - i), left.chars / (n - i)}))
	}
	for _, o := range rising[n:] {
		o.omit(false)
	}
	return n > 0
}

// worthwhile reports whether each of these that is cut keeps a piece worth reading.
func (a *answering) worthwhile(rising []*output, left room) bool {
	for i, o := range rising {
		name, each := a.nameSize(o), room{left.tokens / (len(rising) - i), left.chars / (len(rising) - i)}
		takes := room{min(o.most()+name.tokens, each.tokens), min(o.chars+name.chars, each.chars)}
		if (takes.tokens == each.tokens || takes.chars == each.chars) && (each.tokens < leastTokens || each.chars < leastChars) {
			return false
		}
		left = left.less(takes)
	}
	return true
}

// nameSize is what a result takes besides itself.
func (a *answering) nameSize(o *output) room {
	if o.name == (room{}) {
		o.name = a.size(jsonrpc.AppendString(nil, o.Step.ID)).less(room{-2, -2}) // the colon and the comma
	}
	return o.name
}

// most is how many tokens of a result may come back.
func (o *output) most() int {
	if o.Step.MaxTokens > 0 {
		return min(o.Tokens, o.Step.MaxTokens)
	}
	return o.Tokens
}

// cut cuts a result, and returns what it takes with its name and what is said of the
// rest.
func (a *answering) cut(o *output, each room) room {
	name := a.nameSize(o)
	each = each.less(name)
	whole := room{o.Tokens, o.chars}
	if whole.within(each) && o.most() == o.Tokens {
		o.text, o.left = o.Result.JSON, nil
		return room{whole.tokens + name.tokens, whole.chars + name.chars}
	}
	most := each.less(room{entryTokens, entryChars})
	if o.Step.MaxTokens > 0 {
		most.tokens = min(most.tokens, o.Step.MaxTokens)
	}
	o.text, o.left = excerpt.Cut(o.Result.JSON, excerpt.Limit{Tokens: max(most.tokens, 1), Chars: max(most.chars, 1), Count: a.count})
	part := a.size(o.text)
	rest := a.summarize(o, room{each.tokens / 3, each.chars / 3})
	return room{part.tokens + name.tokens + rest.tokens, part.chars + name.chars + rest.chars}
}

const (
	maxLeft    = 6   // parts of one result that are named one by one
	maxPointer = 200 // bytes of the pointer to one
)

// summarize bounds what is named of a result: its first parts, and the rest as one.
// It returns what that takes, which is no more than may be if it is only one.
func (a *answering) summarize(o *output, most room) room {
	all := o.left
	for first := maxLeft; ; first /= 2 {
		o.left = summary(all, first)
		takes := room{}
		for _, l := range o.left {
			one := a.size(o.missing(l))
			takes = room{takes.tokens + one.tokens + 1, takes.chars + one.chars + 1}
		}
		if first == 0 || takes.within(most) {
			return takes
		}
	}
}

func summary(all []excerpt.Left, first int) []excerpt.Left {
	var kept []excerpt.Left
	rest := excerpt.Left{What: "more"}
	for _, l := range all {
		if len(kept) < first && len(l.Pointer) <= maxPointer || len(all) == 1 && len(l.Pointer) <= maxPointer {
			kept = append(kept, l)
			continue
		}
		rest.Count += l.Count
		rest.Bytes += l.Bytes
	}
	if rest.Bytes > 0 {
		kept = append(kept, rest)
	}
	return kept
}

// omit leaves all of a result out.
func (o *output) omit(named bool) {
	if o.text, o.left = nil, nil; named {
		o.left = []excerpt.Left{{What: "all", Bytes: len(o.Result.JSON)}}
	}
}

// missing names a part that is left out: where it is in the object of all results.
func (o *output) missing(l excerpt.Left) []byte {
	text := jsonrpc.AppendString([]byte(`{"pointer":`), "/"+o.Step.ID+l.Pointer)
	text = jsonrpc.AppendString(append(text, `,"what":`...), l.What)
	if l.From > 0 {
		text = appendNumber(text, "offset", int64(l.From))
	}
	if l.Count > 0 {
		text = appendNumber(text, "count", int64(l.Count))
	}
	return append(appendNumber(text, "bytes", int64(l.Bytes)), '}')
}

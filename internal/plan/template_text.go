package plan

import (
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// tpl reads the text of a $tpl. Of the dollars in front of a brace, two stand for
// one; one that is left begins a reference. So "$${" is "${", and "$$${a#/price}" is
// a dollar and a price.
func (p *templateParser) tpl(raw []byte, at string) *node {
	text, ok := jsonrpc.String(raw)
	if !ok {
		p.defect(at, "want a string, have "+aType(raw))
		return &node{constant: raw}
	}
	before := len(p.defects)
	pieces := p.pieces(text, at)
	if len(p.defects) > before {
		return &node{constant: raw}
	}
	if len(pieces) == 1 && pieces[0].ref == nil {
		return &node{constant: jsonrpc.AppendString(nil, pieces[0].text)}
	}
	return &node{text: pieces}
}

// pieces takes a text apart. There is at least one.
func (p *templateParser) pieces(text, at string) (all []piece) {
	var plain strings.Builder
	for text != "" {
		n := 0
		for n < len(text) && text[n] == '$' {
			n++
		}
		switch {
		case n == 0:
			next := strings.IndexByte(text, '$')
			if next < 0 {
				next = len(text)
			}
			plain.WriteString(text[:next])
			text = text[next:]
			continue
		case markAt(text[n-1:]) > 0: // the guide's form
			if n == 1 {
				p.defect(at, withinText(text))
			}
			plain.WriteString(text[:max(n-1, 1)])
			text = text[n:]
			continue
		case n == len(text) || text[n] != '{':
			plain.WriteString(text[:n])
			text = text[n:]
			continue
		}
		plain.WriteString(text[:n/2])
		text = text[n:]
		if n%2 == 0 {
			continue // the brace is text
		}
		inner, rest, closed := strings.Cut(text[1:], "}")
		if !closed {
			p.defect(at, fmt.Sprintf(`%s: no "}" to this "${"; "$${" puts the two characters into the text`, quoted("$"+text)))
			return all
		}
		text = rest
		if r := p.inner(inner, at); r != nil {
			if plain.Len() > 0 {
				all = append(all, piece{text: plain.String()})
				plain.Reset()
			}
			all = append(all, piece{ref: r})
			p.refs = append(p.refs, r)
		}
	}
	if plain.Len() > 0 || len(all) == 0 {
		all = append(all, piece{text: plain.String()})
	}
	return all
}

// inner reads what stands between the braces.
func (p *templateParser) inner(text, at string) *Ref {
	id, pointer, ok := strings.Cut(text, "#")
	switch {
	case !ok || id == "" || idLen(id) != len(id) || !jsonrpc.ValidPointer(pointer):
		p.defect(at, fmt.Sprintf(`%s: want ${step#/json/pointer}; "$${" puts "${" into the text`, quoted("${"+text+"}")))
		return nil
	case strings.Count(pointer, "/") > maxTokens:
		p.defect(at, fmt.Sprintf("%s: leads into more than %d values", quoted("${"+text+"}"), maxTokens))
		return nil
	}
	return &Ref{Step: id, Pointer: pointer, At: at}
}

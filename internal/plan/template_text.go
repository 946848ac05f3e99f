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
		p.defect(at, "want a string, have "+kindOf(raw))
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
func (p *templateParser) pieces(text, at string) []piece {
	s := splitter{templateParser: p, at: at}
	for text != "" && !p.enough() {
		if n := strings.IndexByte(text, '$'); n != 0 {
			if n < 0 {
				n = len(text)
			}
			s.plain.WriteString(text[:n])
			text = text[n:]
			continue
		}
		text = s.dollars(text)
	}
	if s.plain.Len() > 0 || len(s.all) == 0 {
		s.all = append(s.all, piece{text: s.plain.String()})
	}
	return s.all
}

// splitter is a $tpl as far as it has been read.
type splitter struct {
	*templateParser
	at    string
	all   []piece
	plain strings.Builder // text behind all
}

// dollars reads the dollars that a text begins with and what belongs to them, and
// returns the rest.
func (s *splitter) dollars(text string) (rest string) {
	n := 1
	for n < len(text) && text[n] == '$' {
		n++
	}
	switch rest = text[n:]; {
	case markAt(text[n-1:]) > 0: // the guide's form
		if n == 1 {
			s.defect(s.at, withinText(text))
		}
		s.plain.WriteString(text[:max(n-1, 1)])
	case !strings.HasPrefix(rest, "{"):
		s.plain.WriteString(text[:n])
	default:
		s.plain.WriteString(text[:n/2])
		if n%2 == 1 {
			return s.braces(rest)
		}
	}
	return rest
}

// braces reads a reference, whose "{" a text begins with, and returns the rest.
func (s *splitter) braces(text string) (rest string) {
	inner, rest, closed := strings.Cut(text[1:], "}")
	if !closed {
		s.defect(s.at, fmt.Sprintf(`%s: no "}" to this "${"; "$${" puts the two characters into the text`, quoted("$"+text)))
		return ""
	}
	if r := s.inner(inner, s.at); r != nil {
		if s.plain.Len() > 0 {
			s.all = append(s.all, piece{text: s.plain.String()})
			s.plain.Reset()
		}
		s.all = append(s.all, piece{ref: r})
		s.refs = append(s.refs, r)
	}
	return rest
}

// inner reads what stands between the braces.
func (p *templateParser) inner(text, at string) *Ref {
	id, pointer, ok := cutTarget(text)
	switch {
	case !ok:
		p.defect(at, fmt.Sprintf(`%s: want ${step#/json/pointer}; "$${" puts "${" into the text`, quoted("${"+text+"}")))
		return nil
	case strings.Count(pointer, "/") > maxTokens:
		p.defect(at, fmt.Sprintf("%s: leads into more than %d values", quoted("${"+text+"}"), maxTokens))
		return nil
	}
	return &Ref{Step: id, Pointer: pointer, At: at}
}

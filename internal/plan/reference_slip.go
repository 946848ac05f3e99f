package plan

import (
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// A slip is a reference to something that is there, in a form that is none. It would
// go to the tool as it is written, and nobody would be told. What looks the same and
// leads to no step of the plan is left alone: it is JSON Schema's, or a script's.

// slipBegins are what is written before an id by those who know other notations.
var slipBegins = []string{"", "#/", "/", "#/steps/", "/steps/", "steps/", "steps.", "$.", "$", "${"}

// slipEnds are what may follow an id in them.
const slipEnds = `#./[}`

// maxPath is how many bytes of a path are read for the form that is told.
const maxPath = 200

// slip is the target that the text of a "$ref" was meant to be; "" if it is none of
// ours.
func (p *templateParser) slip(text string) (target string) {
	for _, begin := range slipBegins {
		rest, ok := strings.CutPrefix(text, begin)
		if !ok {
			continue
		}
		id := rest[:idLen(rest)]
		rest = rest[len(id):]
		if p.knows(id) && (rest == "" || strings.IndexByte(slipEnds, rest[0]) >= 0) {
			return meantTarget(id, rest)
		}
	}
	return ""
}

// knows reports whether a reference can lead there.
func (p *templateParser) knows(id string) bool { return p.known != nil && id != "" && p.known(id) }

// meantTarget is a step and where in its result a path in any notation may lead:
// ".items[0]" to /items/0.
func meantTarget(id, path string) string {
	if len(path) > maxPath { // nobody will be shown more of it
		path = strings.ToValidUTF8(path[:maxPath], "")
	}
	var target strings.Builder
	target.WriteString(id + "#")
	for _, name := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune(slipEnds+`]'"`, c) }) {
		target.WriteString("/" + jsonrpc.PointerToken(name))
	}
	return target.String()
}

// refText is the target of a reference within a plain text, as it belongs into a $tpl,
// and whether there is nothing else in the text. A shell's ${name#prefix} is one only
// if name is a step's.
func (p *templateParser) refText(text string) (target string, whole bool) {
	for at := 0; ; {
		next := strings.Index(text[at:], "${")
		if next < 0 {
			return "", false
		}
		begin := at + next
		at = begin + len("${")
		rest := text[at:]
		id := rest[:idLen(rest)]
		if !strings.HasPrefix(rest[len(id):], "#") || !p.knows(id) {
			continue
		}
		path, behind, closed := strings.Cut(rest[len(id):], "}")
		if !closed {
			path = "" // it may go on for ever
		}
		target = id + path
		if !jsonrpc.ValidPointer(strings.TrimPrefix(path, "#")) || path == "" {
			target = meantTarget(id, path)
		}
		return target, begin == 0 && closed && behind == ""
	}
}

// plainText refuses a text that goes to the tool as it is and has a reference in it.
func (p *templateParser) plainText(text, at string) {
	switch target, whole := p.refText(text); {
	case target == "":
	case whole:
		p.defect(at, fmt.Sprintf(`%s: no reference as it stands: want {"$ref": %s}, or {"$tpl": %s} for a text%s`, quoted(text), quoted(target), quoted("${"+target+"}"), orLiteral))
	default:
		p.defect(at, fmt.Sprintf(`%s: a text with references in it is {"$tpl": "… ${%s} …"}%s`, quoted(text), cut(target, shownName), orLiteral))
	}
}

// refBeside refuses a reference with a member beside it that it may not have.
func (p *templateParser) refBeside(text, beside, at string) {
	if id, _, ok := cutTarget(text); ok && p.knows(id) {
		p.defect(at, fmt.Sprintf(`%s: no reference, as %s stands beside it: only "default" may%s`, quoted(text), quoted(beside), p.orObject()))
	}
}

// orObject says how to send an object that looks like a reference; nothing where only
// a reference may stand.
func (p *templateParser) orObject() string {
	if p.only {
		return ""
	}
	return `; {"$lit": {…}} leaves an object as it is`
}

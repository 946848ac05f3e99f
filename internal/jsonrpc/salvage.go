package jsonrpc

import "bytes"

// SalvageID finds the id in head, the beginning of a message that is broken, cut
// or too long; nil if it cannot be told. It is never that of a nested object.
//
// The structure must be sound up to the comma or brace behind the id, but strings
// may hold anything: what breaks a message is most often a tool's text with wrong
// UTF-8, a raw tab or a bad escape in it.
func SalvageID(head []byte) []byte {
	text := neutral(head)
	i := space(text, 0)
	if i == len(text) || text[i] != '{' {
		return nil
	}
	var p parser
	p.object(text, i)
	if p.m.ID == nil {
		return nil
	}
	end := p.idAt + len(p.m.ID)
	if id := head[p.idAt:end:end]; Valid(id) {
		return id
	}
	return nil
}

// neutral returns a copy of b whose strings are valid, byte for byte in the same
// places: every escape and every byte that is not printable ASCII has become
// question marks, and white space spaces.
func neutral(b []byte) []byte {
	b = bytes.Clone(b)
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '\\':
			b[i] = '?'
			if i+1 < len(b) {
				i++
				b[i] = '?'
			}
		case c == '\t' || c == '\n' || c == '\r':
			b[i] = ' '
		case c < 0x20 || c >= 0x80:
			b[i] = '?'
		}
	}
	return b
}

// lastID finds the id in the end of a message whose last member it is, nil if it
// cannot be told. What stands right before the last brace belongs to no nested
// object.
func lastID(tail []byte) []byte {
	body, ok := bytes.CutSuffix(bytes.TrimRight(tail, " \t\r"), []byte("}"))
	at := bytes.LastIndex(body, []byte(`"id"`))
	if !ok || at < 0 {
		return nil
	}
	before := bytes.TrimRight(body[:at], " \t")
	id, ok := bytes.CutPrefix(bytes.TrimLeft(body[at+len(`"id"`):], " \t"), []byte(":"))
	id = bytes.Trim(id, " \t")
	if !ok || !Valid(id) || !bytes.HasSuffix(before, []byte(",")) && !bytes.HasSuffix(before, []byte("{")) {
		return nil
	}
	if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return nil
	}
	return bytes.Clone(id)
}

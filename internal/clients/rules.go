package clients

import "bytes"

// renamedBack takes back what was renamed in a text.
func renamedBack(text []byte, all []Rename) []byte {
	for _, r := range all {
		text = bytes.ReplaceAll(text, []byte(r.To), []byte(r.From))
	}
	return text
}

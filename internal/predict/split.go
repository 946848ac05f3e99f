package predict

import "bytes"

// Split divides a state into what belongs to the server wherever it is used (how long calls
// take, what follows what, trials, bars) and the values that its sessions have used, which
// belong to the folder they worked in. Put behind each other the two are the state again.
func Split(state []byte) (server, values []byte) {
	first := true
	for line := range bytes.Lines(state) {
		switch {
		case first: // its version
			server, values = append(server, line...), append(values, line...)
			first = false
		case holdsValues(line):
			values = append(values, line...)
		default:
			server = append(server, line...)
		}
	}
	return server, values
}

// holdsValues reports whether a line of a state does: of a template if a part of it is fixed.
func holdsValues(line []byte) bool {
	_, body, _ := bytes.Cut(line, []byte{' '})
	name, _, _ := bytes.Cut(bytes.TrimPrefix(body, []byte(`{"`)), []byte{'"'})
	switch string(name) {
	case "constants", "sightings":
		return true
	case "template":
		return bytes.Contains(body, []byte(`"value":`)) || bytes.Contains(body, []byte(`"base":`))
	}
	return false
}

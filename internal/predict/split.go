package predict

import "bytes"

// Split divides a state into what belongs to the server wherever it is used (how long calls
// take, what follows what, trials, bars) and the values that its sessions have used, which
// belong to the folder they worked in. Put behind each other the two are the state again.
func Split(state []byte) (server, values []byte) {
	first := true
	for line := range bytes.Lines(state) {
		_, body, _ := bytes.Cut(line, []byte{' '})
		switch {
		case first: // its version
			server, values = append(server, line...), append(values, line...)
			first = false
		case bytes.HasPrefix(body, []byte(valuesPart)):
			values = append(values, line...)
		default:
			server = append(server, line...)
		}
	}
	return server, values
}

package upstream

import "mcpschedd/internal/jsonrpc"

// parse reads a message of a server. One with invalid UTF-8 in it, such as a file's
// text in another encoding, is read as the server's clients read it without us, with
// U+FFFD in that place: the whole answer would be lost for it otherwise.
func (s *sink) parse(raw []byte) (jsonrpc.Message, error) {
	m, err := jsonrpc.Parse(raw)
	if err == nil {
		return m, nil
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil {
		if m, err := jsonrpc.Parse(repaired); err == nil {
			s.repaired()
			return m, nil
		}
	}
	return m, err
}

// batch returns an array of messages as it can be read, nil if it cannot.
func (s *sink) batch(raw []byte) []byte {
	if jsonrpc.Valid(raw) {
		return raw
	}
	if repaired := jsonrpc.Repair(raw); repaired != nil && jsonrpc.Valid(repaired) {
		s.repaired()
		return repaired
	}
	return nil
}

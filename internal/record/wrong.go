package record

// Wrong is one thing that keeps servers from working, or from saving more.
type Wrong struct {
	What string `json:"what"`
	Mend string `json:"mend,omitempty"` // the line that mends it: a command, or one of the configuration
}

// Wrong is what is wrong with the running processes, the worst first; what is wrong with the
// record itself is in [View.Problems].
func (s *Stats) Wrong() []Wrong {
	all := []Wrong{}
	for _, p := range s.Running {
		if p.ConfigError != "" {
			all = append(all, Wrong{"The configuration as it is written is not in force: " + Printable(p.ConfigError), "mcpschedd check"})
			break
		}
	}
	told := make(map[string]bool) // upstreams
	for _, u := range merge(s.Running) {
		if u.State == "down" && !told[u.Name] {
			told[u.Name] = true
			all = append(all, Wrong{Printable(u.Name) + " is down: its tools cannot be called.", "mcpschedd logs " + Printable(u.Name)})
		}
	}
	for _, u := range merge(s.Running) {
		if !told[u.Name] && u.Tools > 0 && u.Cacheable == 0 && u.Why != "" {
			told[u.Name] = true
			all = append(all, Wrong{Printable(u.Name) + " passes through: " + Printable(u.Why) + ".", Printable(u.Change)})
		}
	}
	if why := s.whyNothing(); why != "" {
		all = append(all, Wrong{What: why})
	}
	return all
}

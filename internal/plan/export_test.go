package plan

// Refs returns the references in the arguments of a step.
func (s *Step) Refs() []*Ref { return refsIn(s.arguments) }

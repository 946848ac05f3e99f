package schema

// Check is CheckWithin with the maximum effort of one check.
func (s *Schema) Check(arguments []byte) error {
	left := MaxEffort
	return s.CheckWithin(arguments, &left)
}

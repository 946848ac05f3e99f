package schema

// Check is CheckWithin with as much effort as one check may take.
func (s *Schema) Check(arguments []byte) error {
	left := MaxEffort
	return s.CheckWithin(arguments, &left)
}

package schema

// Cost is what checking arguments is reckoned to take; more than most if it is more.
func Cost(s *Schema, arguments []byte, most int) int {
	value, took, err := decode(arguments, argumentLimits)
	if err != nil {
		return most + 1
	}
	return took + s.cost(value, most)
}

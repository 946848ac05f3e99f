package predict

// Stats are counts of what a forecast did.
type Stats struct {
	Predict LearnerStats `json:"predict"`

	Unread    int `json:"unread"`    // answers whose text was not read
	NotJSON   int `json:"not_json"`  // answers that a follow-up wanted to read from and could not
	Proposed  int `json:"proposed"`  // calls that configured follow-ups made
	Binding   int `json:"binding"`   // calls of follow-ups that a value was missing for, or not alone, or that cannot be written
	Ambiguous int `json:"ambiguous"` // calls that were made whose arguments two servers may read as two things
	Refused   int `json:"refused"`   // calls of follow-ups that no rule allows
	Forgotten int `json:"forgotten"` // calls whose answer did not come in time
	Supposed  int `json:"supposed"`  // answers of guesses followed one level further
	Unchecked int `json:"unchecked"` // guesses that were taken for unfit, as to check all those of one answer would have taken too long
}

// Stats copies the counts out.
func (f *Model) Stats() Stats {
	s := f.stats
	s.Predict = f.m.Stats()
	return s
}

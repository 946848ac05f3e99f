package replay

// Decile is a row of the reliability table: calls by their probability when first predicted, and how
// many of them were made while an answer fetched then could have been used.
type Decile struct {
	From     float64 `json:"from"` // probability
	N        int     `json:"n"`
	Expected float64 `json:"expected"` // mean probability; 0 if N is 0
	Observed float64 `json:"observed"` // share that were made
}

// calibration returns the reliability table.
func (p *Player) calibration() []Decile {
	var all []Decile
	for i, d := range p.deciles {
		d.From = float64(i) / 10
		if d.N > 0 {
			d.Expected, d.Observed = d.Expected/float64(d.N), d.Observed/float64(d.N)
		}
		all = append(all, d)
	}
	return all
}

// labelled counts a call that was predicted. Until the end Expected and Observed are sums.
func (p *Player) labelled(probability float64, came bool) {
	if !p.playing {
		return
	}
	d := &p.deciles[min(9, max(0, int(probability*10)))]
	d.N++
	d.Expected += probability
	if came {
		d.Observed++
	}
}

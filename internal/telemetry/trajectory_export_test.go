package telemetry

// Held is how many bytes are held, about.
func (t *Trajectories) Held() int64 { return t.held }

// Waiting is how many sessions are.
func (t *Trajectories) Waiting() int { return t.order.Len() }

package predict

// onTrial reports whether the edge of a template, from its trigger to its target, is still
// only observed. It may prefetch once its templates have Options.ShadowLabels labels.
func (m *Model) onTrial(t *template) bool {
	labels := float32(0)
	for _, o := range m.learned.templates[t.Trigger] {
		if o.Target == t.Target {
			labels += o.labels.Now
		}
	}
	return int(labels) < m.opt.ShadowLabels
}

// Demote puts every edge to a tool on trial again, after a prefetch of the tool did harm.
func (m *Model) Demote(tool string) {
	for _, all := range m.learned.templates {
		for _, t := range all {
			if t.Target == tool {
				t.labels.Now = 0
			}
		}
	}
}

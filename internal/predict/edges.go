package predict

// shadow reports whether the edge that a template is of, from its trigger to its target, has
// still to prove itself: it issues once its templates have had Options.ShadowLabels labels.
func (m *Model) onTrial(t *template) bool {
	labels := float32(0)
	for _, o := range m.learned.templates[t.Trigger] {
		if o.Target == t.Target {
			labels += o.labels.Now
		}
	}
	return int(labels) < m.opt.ShadowLabels
}

// Harm notes that a prefetch of a tool did harm: every edge to it is only watched again.
func (m *Model) Demote(tool string) {
	for _, all := range m.learned.templates {
		for _, t := range all {
			if t.Target == tool {
				t.labels.Now = 0
			}
		}
	}
}

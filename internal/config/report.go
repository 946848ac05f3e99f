package config

// Unusable returns, with their positions, the reasons why enabled upstreams cannot run with the
// variables of env, which is [os.LookupEnv] outside tests.
func (c *Config) Unusable(env func(string) (string, bool)) (all []Problem) {
	for _, u := range c.Upstreams {
		if u.Enabled {
			resolved, err := u.Resolve(env)
			all = append(all, c.unresolved(err)...)
			all = append(all, c.unresolved(resolved.Warning)...)
		}
	}
	return all
}

// unresolved returns the [Unresolved] errors joined in err, with their positions.
func (c *Config) unresolved(err error) (all []Problem) {
	if e, ok := err.(*Unresolved); ok {
		return []Problem{c.Problem(e.Key, "%s", e.Reason)}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, c.unresolved(err)...)
		}
	}
	return all
}

package metrics

// Registry is what the handler shows.
var Registry = registry

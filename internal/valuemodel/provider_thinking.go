package valuemodel

// thinkingProviders returns the servers that keep an agent's own notes, and the
// one that shows what the protocol can do.
func thinkingProviders() []Provider {
	graph := reading("read_graph", "search_nodes", "open_nodes").worth(Supporting)
	return []Provider{{
		Name:    "memory",
		Servers: []string{"memory-server"},
		Tools: joined(graph,
			writingHere("create_entities", "create_relations", "add_observations").stales(stale(names(graph)...)),
			writingHere("delete_entities", "delete_relations", "delete_observations").stales(stale(names(graph)...)),
		),
	}, {
		Name:     "sequential-thinking",
		Servers:  []string{"sequential-thinking-server"},
		Stateful: true, // says it only reads, and numbers the thoughts it was given
		Tools:    unsure("sequentialthinking").worth(AuditOnly),
	}, {
		Name:    "everything",
		Servers: []string{"mcp-servers/everything", "example-servers/everything"},
		Tools: joined(
			constant("echo", "get-sum", "get-tiny-image", "get-annotated-message"),
			reading("get-structured-content", "get-resource-links"),
			reading("get-resource-reference").live(),              // bears the time
			reading("get-env").unguessed(),                        // secrets among it
			reading("trigger-long-running-operation").unguessed(), // only takes time
			unsure("gzip-file-as-resource"),                       // fetches what its argument names
			unsure("simulate-research-query"),                     // a task that may ask the user
			writingHere("toggle-simulated-logging"),               // of this session
			writingHere("toggle-subscriber-updates"),              // of this session
		),
	}}
}

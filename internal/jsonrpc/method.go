package jsonrpc

// method returns the method whose name is written as name between the quotes.
// The ones that MCP knows cost no allocation, even as "tools\/call", which is
// how PHP writes a slash.
func method(name []byte) string {
	var plain [64]byte
	if escaped(name) {
		name = appendUnescaped(plain[:0], name)
	}
	switch string(name) {
	case "tools/call":
		return "tools/call"
	case "tools/list":
		return "tools/list"
	case "resources/list":
		return "resources/list"
	case "resources/templates/list":
		return "resources/templates/list"
	case "resources/read":
		return "resources/read"
	case "resources/subscribe":
		return "resources/subscribe"
	case "resources/unsubscribe":
		return "resources/unsubscribe"
	case "prompts/list":
		return "prompts/list"
	case "prompts/get":
		return "prompts/get"
	case "completion/complete":
		return "completion/complete"
	case "logging/setLevel":
		return "logging/setLevel"
	case "initialize":
		return "initialize"
	case "ping":
		return "ping"
	case "server/discover":
		return "server/discover"
	case "subscriptions/listen":
		return "subscriptions/listen"
	case "sampling/createMessage":
		return "sampling/createMessage"
	case "elicitation/create":
		return "elicitation/create"
	case "roots/list":
		return "roots/list"
	case "tasks/get":
		return "tasks/get"
	case "tasks/update":
		return "tasks/update"
	case "tasks/result":
		return "tasks/result"
	case "tasks/list":
		return "tasks/list"
	case "tasks/cancel":
		return "tasks/cancel"
	case "notifications/initialized":
		return "notifications/initialized"
	case "notifications/cancelled":
		return "notifications/cancelled"
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/message":
		return "notifications/message"
	case "notifications/tools/list_changed":
		return "notifications/tools/list_changed"
	case "notifications/resources/list_changed":
		return "notifications/resources/list_changed"
	case "notifications/resources/updated":
		return "notifications/resources/updated"
	case "notifications/prompts/list_changed":
		return "notifications/prompts/list_changed"
	case "notifications/roots/list_changed":
		return "notifications/roots/list_changed"
	case "notifications/elicitation/complete":
		return "notifications/elicitation/complete"
	case "notifications/tasks/status":
		return "notifications/tasks/status"
	case "notifications/subscriptions/acknowledged":
		return "notifications/subscriptions/acknowledged"
	}
	return string(name)
}

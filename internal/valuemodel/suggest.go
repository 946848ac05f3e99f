package valuemodel

// Suggest guesses a class from a tool's name, for a proposal that a person reviews. No model
// uses it.
func Suggest(tool string) Class {
	found := Indeterminate
	for _, word := range words(tool) {
		switch verb := verbClass(word); {
		case word == "and" || word == "or": // get_or_create
			found = Indeterminate
		case verb != "" && found == Indeterminate:
			found = verb
		}
		if found == MutatesExternal {
			break
		}
	}
	return found
}

// verbClass returns the class that a verb suggests; "" for other words and for ambiguous
// verbs such as run.
func verbClass(word string) Class {
	switch word {
	case "get", "list", "search", "read", "find", "fetch", "describe", "show", "view", "query", "lookup",
		"count", "check", "inspect", "browse", "retrieve", "explain", "diff", "compare", "resolve", "peek", "stat", "status":
		return ReadOnly
	case "create", "update", "delete", "write", "add", "remove", "set", "edit", "insert", "upsert", "put", "patch",
		"move", "rename", "copy", "merge", "close", "reopen", "assign", "unassign", "send", "post", "push", "commit",
		"upload", "publish", "archive", "restore", "enable", "disable", "start", "stop", "cancel", "approve", "reject",
		"clear", "drop", "replace", "append", "submit", "reset", "apply", "deploy", "fork", "star", "unstar", "reply":
		return MutatesExternal
	}
	return ""
}

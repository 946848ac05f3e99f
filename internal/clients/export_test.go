package clients

// Program is the name of what a command line runs.
func Program(line ...string) string { return program(line, 4) }

// TellsSecret reports whether a name tells a secret.
var TellsSecret = tellsSecret

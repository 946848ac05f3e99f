package wide

// OnWindows is counted as text, and no name of Linux.
func OnWindows() {}

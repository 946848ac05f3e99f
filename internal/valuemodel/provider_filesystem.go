package valuemodel

// filesystemProviders returns the file servers: the reference one and the Go
// one (mark3labs), which calls itself by the same name and whose tools of equal
// names take equal arguments.
func filesystemProviders() []Provider {
	same := []string{"read_file", "read_text_file", "read_media_file"}
	reads := filesystemReads()
	return []Provider{{
		Name:    "filesystem",
		Servers: []string{"secure-filesystem-server"},
		Tools: joined(reads,
			// A file that goes by two paths is caught by its stamp: what is
			// matched here is stored with one.
			writingHere("write_file", "edit_file", "modify_file").stales(staleSame("path", same...), staleFiles(same...)),
			// These may take whole trees along.
			writingHere("move_file", "copy_file", "delete_file", "create_directory").stales(staleFiles()),
		),
	}, {
		Name:    "ripgrep",
		Servers: []string{"ripgrep-search", "mcp-ripgrep"},
		Tools: joined(ripgrepReads(),
			// The fileType of these goes into a command line unquoted.
			unsure("advanced-search", "list-files").stales(staleFiles()),
		),
	}}
}

func filesystemReads() toolTable {
	return joined(
		reading("read_file", "read_text_file", "read_media_file").worth(Critical).file("path"),
		reading("read_multiple_files").worth(Critical),
		reading("search_files", "search_within_files").worth(Critical),
		reading("list_directory", "list_directory_with_sizes", "directory_tree", "tree").worth(Supporting),
		reading("get_file_info", "list_allowed_directories").worth(Optional),
	)
}

func ripgrepReads() toolTable {
	return joined(
		// A pattern may be an option such as --pre, which names a program to run:
		// no guess may fill it in.
		reading("search", "count-matches").worth(Critical).unguessed(),
		reading("list-file-types").worth(Optional),
	)
}

// fileReaders lists every known tool that reads the files of this machine, of
// whatever server, with the shell, whose calls may, and what fetches pages,
// which a server of this machine may make of files. A write to a file by one
// is seen by all.
func fileReaders() []string {
	return append(names(clientReads(), filesystemReads(), ripgrepReads(), gitReads(), goplsReads(), languageServerReads()), "Bash", "WebFetch", "fetch")
}

// staleFiles are edges to every reader of local files but those given, which
// the caller matches.
func staleFiles(matched ...string) []Edge {
	return stale(without(fileReaders(), matched...)...)
}

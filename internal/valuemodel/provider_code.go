package valuemodel

// codeProviders returns the language servers. An answer of theirs depends on
// the whole workspace, so none is bound to one file.
func codeProviders() []Provider {
	return []Provider{{
		Name:    "gopls",
		Servers: []string{"gopls"},
		Tools:   goplsReads(),
	}, {
		Name:    "mcp-language-server",
		Servers: []string{"mcp language server"},
		Tools: joined(languageServerReads(),
			writingHere("edit_file", "rename_symbol").stales(staleFiles()),
		),
	}}
}

func goplsReads() toolTable {
	return joined(
		reading("go_search", "go_symbol_references", "go_package_api", "go_file_context").worth(Critical),
		reading("go_workspace").worth(Supporting),
		reading("go_diagnostics").worth(Critical).live().unguessed(), // checks the whole workspace
		reading("go_rename_symbol").worth(Supporting),                // gives the edits back, makes none
		reading("go_vulncheck").unguessed(),                          // analyses the whole program, asks a server
	)
}

func languageServerReads() toolTable {
	return joined(
		reading("definition", "references", "hover").worth(Critical),
		reading("diagnostics").worth(Critical).live(), // come in while the server works
	)
}

package valuemodel

// databaseProviders returns the SQL servers. What runs a statement is
// indeterminate and told apart call by call, for a prefix check, or a
// transaction begun read-only, can be ended by the statement itself.
func databaseProviders() []Provider {
	postgres := joined(
		reading("search_objects").worth(Supporting),
		reading("list_tables", "list_views", "list_schemas", "list_sequences", "list_triggers").worth(Supporting),
		reading("list_indexes").worth(Supporting).live(), // and how often each was used
		reading("list_stored_procedure", "list_publication_tables", "list_tablespaces", "list_roles").worth(Supporting),
		reading("list_available_extensions", "list_installed_extensions").worth(Optional),
		// Settings, marked as writes by the server.
		reading("list_autovacuum_configurations", "list_memory_configurations").worth(Optional),
		reading("list_pg_settings").worth(Optional).unguessed(), // passwords of replicas among them
		reading("list_invalid_indexes", "get_column_cardinality").worth(Supporting),
		// What the database is doing at this moment.
		reading("database_overview", "list_database_stats", "list_table_stats", "list_top_bloated_tables").live(),
		// With the statements of others, and the values in them.
		reading("list_active_queries", "list_query_stats", "long_running_transactions", "list_locks").live().unguessed(),
		reading("replication_stats", "list_replication_slots").live(),
	)
	sqlite := reading("list_tables", "describe_table").worth(Supporting)
	// A statement that only reads is an answer that the next one may end.
	anyPostgres := stale(append(names(postgres), "execute_sql", "query", "get_query_plan")...)
	anySQLite := stale(append(names(sqlite), "read_query")...)
	return []Provider{{
		Name:    "postgres", // the toolbox, the reference server, dbhub
		Servers: []string{"toolbox", "example-servers/postgres", "dbhub mcp server"},
		Tools: joined(postgres,
			unsure("execute_sql", "query").classify(SQL).worth(Critical).stales(anyPostgres),
			// Puts EXPLAIN before its argument: a second statement in it would run.
			unsure("get_query_plan").classify(SQL).stales(anyPostgres),
		),
	}, {
		Name:    "sqlite",
		Servers: []string{"sqlite-manager"},
		Tools: joined(sqlite,
			unsure("read_query").classify(SQL).worth(Critical).stales(anySQLite),
			writingHere("write_query", "create_table").stales(anySQLite),
		),
	}}
}

package valuemodel

// sqlWrites reports whether a word, in upper case, may make a query write, lock
// or run something in one of the databases. SQL Server needs no semicolon between
// statements, so its statements count wherever they stand; Oracle and SQL Server
// advance a sequence with a word; Hive runs scripts from a query.
func sqlWrites(word string) bool {
	switch word {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "UPSERT", "CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "GRANT", "REVOKE",
		"DENY", "COPY", "CALL", "DO", "EXEC", "EXECUTE", "PREPARE", "DEALLOCATE", "DECLARE", "LOCK", "UNLOCK", "SHARE", "SET",
		"RESET", "VACUUM", "ANALYZE", "ANALYSE", "REINDEX", "CLUSTER", "REFRESH", "NOTIFY", "LISTEN", "UNLISTEN", "LOAD",
		"UNLOAD", "ATTACH", "DETACH", "HANDLER", "INTO", "OUTFILE", "DUMPFILE", "RETURNING", "PROCEDURE", "BEGIN", "COMMIT",
		"ROLLBACK", "SAVEPOINT", "SAVE", "START", "USE", "KILL", "SHUTDOWN", "FLUSH", "PURGE", "OPTIMIZE", "REPAIR", "INSTALL",
		"UNINSTALL", "IMPORT", "EXPORT", "BACKUP", "RESTORE", "CANCEL", "PAUSE", "RESUME", "BULK", "DBCC", "WAITFOR", "PRINT",
		"RAISERROR", "THROW", "GOTO", "GO", "WHILE", "RETURN", "BREAK", "CONTINUE", "REVERT", "RECONFIGURE", "CHECKPOINT",
		"ENABLE", "DISABLE", "ADD", "OPEN", "CLOSE", "FETCH", "MOVE", "SEND", "RECEIVE", "GET", "WRITETEXT", "UPDATETEXT",
		"SETUSER", "NEXT", "NEXTVAL", "SETTINGS", "TRANSFORM", "MAP", "REDUCE", "UPDLOCK", "XLOCK", "TABLOCK", "TABLOCKX",
		"HOLDLOCK", "PRAGMA", "FUNCTION", "CONVERSATION", "DIALOG", "SQL_CALC_FOUND_ROWS":
		return true
	}
	return false
}

// sqlGroups reports whether a parenthesis after this word is no call. All are
// reserved, so that no function has such a name.
func sqlGroups(word string) bool {
	switch word {
	case "SELECT", "DISTINCT", "ALL", "FROM", "JOIN", "LATERAL", "ON", "USING", "WHERE", "AND", "OR", "NOT", "IN", "EXISTS",
		"ANY", "SOME", "BETWEEN", "LIKE", "ILIKE", "CASE", "WHEN", "THEN", "ELSE", "BY", "HAVING", "LIMIT", "OFFSET", "UNION",
		"EXCEPT", "INTERSECT", "VALUES":
		return true
	}
	return false
}

// sqlPure reports whether a function, in upper case, is a builtin that only
// computes or looks something up, wherever there is one of that name. Missing on
// purpose are those that differ every time (RANDOM, UUID) or may keep a
// connection busy (SLEEP).
func sqlPure(name string) bool {
	switch name {
	case "COUNT", "SUM", "MIN", "MAX", "AVG", "TOTAL", "STDDEV", "VARIANCE", "BOOL_AND", "BOOL_OR", "STRING_AGG", "ARRAY_AGG",
		"GROUP_CONCAT", "PERCENTILE_CONT", "PERCENTILE_DISC", "ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "NTILE",
		"LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "NTH_VALUE", "CUME_DIST":
		return true
	case "COALESCE", "NULLIF", "IFNULL", "ISNULL", "NVL", "IIF", "IF", "GREATEST", "LEAST", "CAST", "TRY_CAST", "CONVERT",
		"NUMERIC", "DECIMAL", "VARCHAR", "CHAR", "TYPEOF":
		return true
	case "LOWER", "UPPER", "LENGTH", "LEN", "CHAR_LENGTH", "OCTET_LENGTH", "SUBSTRING", "SUBSTR", "LEFT", "RIGHT", "TRIM",
		"LTRIM", "RTRIM", "BTRIM", "LPAD", "RPAD", "CONCAT", "CONCAT_WS", "REPLACE", "REVERSE", "POSITION", "STRPOS", "INSTR",
		"CHARINDEX", "SPLIT_PART", "INITCAP", "REGEXP_REPLACE", "REGEXP_LIKE", "MD5", "HEX", "QUOTE_IDENT", "QUOTE_LITERAL":
		return true
	case "ABS", "ROUND", "CEIL", "CEILING", "FLOOR", "TRUNC", "MOD", "POWER", "POW", "SQRT", "EXP", "LN", "LOG", "SIGN":
		return true
	case "NOW", "CURRENT_TIMESTAMP", "GETDATE", "DATE", "TIME", "DATETIME", "TIMESTAMP", "JULIANDAY", "STRFTIME", "UNIXEPOCH",
		"DATE_TRUNC", "DATE_PART", "EXTRACT", "AGE", "TO_CHAR", "TO_DATE", "TO_TIMESTAMP", "DATE_FORMAT", "DATEDIFF", "DATEADD",
		"DATEPART", "DATE_ADD", "DATE_SUB", "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "FROM_UNIXTIME", "UNIX_TIMESTAMP":
		return true
	case "JSON_EXTRACT", "JSON_VALUE", "JSON_OBJECT", "JSON_ARRAY", "JSON_ARRAY_LENGTH", "JSON_TYPE", "JSON_VALID", "JSON_EACH",
		"JSON_TREE", "JSON_GROUP_ARRAY", "JSON_GROUP_OBJECT", "JSON_UNQUOTE", "JSON_LENGTH", "JSON_AGG", "JSONB_AGG",
		"JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT", "JSONB_ARRAY_LENGTH", "JSONB_ARRAY_ELEMENTS", "JSONB_ARRAY_ELEMENTS_TEXT",
		"JSON_ARRAY_ELEMENTS", "JSONB_EXTRACT_PATH_TEXT", "JSONB_OBJECT_KEYS", "JSONB_TYPEOF", "TO_JSON", "TO_JSONB",
		"ROW_TO_JSON", "UNNEST", "GENERATE_SERIES", "ARRAY_LENGTH", "ARRAY_TO_STRING", "CARDINALITY":
		return true
	case "VERSION", "SQLITE_VERSION", "CURRENT_DATABASE", "CURRENT_SCHEMA", "DATABASE", "PG_SIZE_PRETTY",
		"PG_TOTAL_RELATION_SIZE", "PG_RELATION_SIZE", "PG_TABLE_SIZE", "PG_INDEXES_SIZE", "PG_DATABASE_SIZE",
		"PG_GET_VIEWDEF", "PG_GET_INDEXDEF", "PG_GET_CONSTRAINTDEF", "PG_GET_FUNCTIONDEF", "PG_GET_EXPR", "FORMAT_TYPE",
		"OBJ_DESCRIPTION", "COL_DESCRIPTION", "PRAGMA_TABLE_INFO", "PRAGMA_INDEX_LIST", "PRAGMA_FOREIGN_KEY_LIST":
		return true
	}
	return false
}

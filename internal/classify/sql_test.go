package classify_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/classify"
)

// statement reports whether a statement is classified as a read.
func statement(s string) bool {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return classify.SQL.Of(slices.Values([]string{"sql"}), func(string) []byte { return raw }).Level == classify.Reads
}

// writingWords are words that no statement may contain anywhere.
var writingWords = []string{"INSERT", "UPDATE", "DELETE", "MERGE", "DROP", "ALTER", "TRUNCATE", "GRANT", "CALL", "EXEC", "INTO", "LOCK", "SET", "COPY"}

// readingStatements returns statements that must be classified as reads.
func readingStatements() []string {
	return []string{
		"SELECT 1", "select 1;", "SELECT 1 ; \n", "\tSELECT\r\n1", "SELECT * FROM users WHERE id = 1", "SELECT a, b AS c FROM t ORDER BY 1 DESC LIMIT 5 OFFSET 2",
		"SELECT 'it''s', 'DROP TABLE x; --', '/* é */' FROM t", `SELECT "delete", "a b" FROM "t"`, "SELECT `update` FROM `t`",
		"SELECT count(*), COUNT (DISTINCT a) FROM t GROUP BY b HAVING count(*) > 1", "SELECT coalesce(a, lower(b)) || 'x' FROM t", "SELECT replace(a, 'x', 'y') FROM t",
		"SELECT a FROM t WHERE b IN (SELECT c FROM u) AND NOT EXISTS (SELECT 1 FROM v)", "SELECT a FROM t JOIN u USING (id) LEFT JOIN v ON (v.id = t.id)", "SELECT (1 + 2) * 3 / 4 % 5 - 6",
		"SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t", "SELECT count(*) FILTER (WHERE a > 1) FROM t", "SELECT CAST(a AS numeric(10, 2)), b::text FROM t",
		"SELECT CASE WHEN a >= 1 THEN 'x' ELSE 'y' END FROM t", "SELECT a->>'b' FROM t WHERE c -> 'd' <> '1'", "SELECT a FROM t WHERE id = $1 AND b != ?", "SELECT a FROM t WHERE b = 'http://x' OR b LIKE 'http://%'", "SELECT date_trunc('day', now()), DATE '2024-01-01'",
		"SELECT a FROM t UNION ALL SELECT b FROM u", "SELECT extract(year FROM a) FROM public.t", "SELECT 1 -- a comment\n, 2", "SELECT 1 + 2 --", "SELECT 1 -- x; DELETE FROM t",
		"SELECT host, disk, mount\nFROM t\n\n-- of today\nWHERE a = 1\n\nGROUP BY\nhost, disk", "WITH x AS (\n\n  SELECT 1\n)\n\nSELECT * FROM x",
		"WITH x AS (SELECT 1) SELECT * FROM x", "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x WHERE n < 5), y AS (SELECT 2) SELECT * FROM x, y",
		"SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname <> 'pg_catalog'", "SELECT o.lo_revenue, (a).b FROM lineorder o",
		"EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1", "EXPLAIN WITH x AS (SELECT 1) SELECT * FROM x", "SHOW TABLES", "SHOW FULL COLUMNS FROM t", "SHOW CREATE TABLE a.t", "SHOW VARIABLES LIKE 'x%'", "SHOW search_path",
		"DESCRIBE t", "DESC a.t", "PRAGMA table_info(t)", "PRAGMA main.index_list('t')", "PRAGMA user_version", "PRAGMA database_list;",
	}
}

// writingStatements returns statements that must not be classified as reads: some database
// executes them as writes, or may interpret them differently.
func writingStatements() []string {
	return []string{
		"", ";", "--", "-- x", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t", "DROP TABLE t", "VALUES (1)", "SELECT [a] FROM [t]", "SELECT a[1] FROM t", "WITH x AS MATERIALIZED (SELECT 2) SELECT * FROM x", "TABLE t", "(SELECT 1)", "BEGIN", "SET a = 1", "COPY t TO 'x'", "CALL f()", "DO 1", "ANALYZE", "VACUUM", "SELECT", "WITH",
		"SELECT 1; DELETE FROM t", "SELECT 1;;", "SELECT 1; SELECT 2", "; SELECT 1", "SELECT 1 DELETE FROM t", "SELECT 1 EXEC f", "SELECT 1 KILL 5", "SELECT 1 SHUTDOWN", "SELECT 1 WAITFOR DELAY '1'", "SELECT 1\nGO\nDROP TABLE t", "SELECT 1 TRUNCATE TABLE t", "SELECT 1 BEGIN TRAN", "SELECT 1 USE x", "SELECT 1 DUMP DATABASE m TO 'f'", "SELECT 1 REORG REBUILD t", "SELECT 1 QUIESCE DATABASE x HOLD m", "SELECT 1 UNMOUNT DATABASE m TO 'f'",
		"SELECT * INTO x FROM t", "SELECT a FROM t INTO OUTFILE 'x'", "SELECT a INTO DUMPFILE 'x' FROM t", "SELECT a FROM t FOR UPDATE", "SELECT a FROM t FOR SHARE", "SELECT a FROM t FOR NO KEY UPDATE", "SELECT a FROM t FOR KEY SHARE", "SELECT a FROM t LOCK IN SHARE MODE", "SELECT a FROM t WITH (UPDLOCK)", "SELECT a FROM t (UPDLOCK)", "SELECT a FROM t WITH (NOLOCK)",
		"WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "WITH x AS (INSERT INTO t VALUES (1)) SELECT 1", "WITH x AS (SELECT 1) DELETE FROM t", "WITH x AS (SELECT 1) UPDATE t SET a = 1", "WITH x AS (SELECT 1) REPLACE INTO t VALUES (1)", "WITH x AS (SELECT 1), y AS (MERGE INTO t) SELECT 1", "WITH x AS (CANCEL JOB 1) SELECT 1", "WITH x AS (f) SELECT 1", "WITH FUNCTION f RETURN 1 SELECT f FROM t", "WITH x AS (SELECT 1", "WITH x AS (SELECT 1) x AS (SELECT 2)",
		"SELECT nextval('s')", "SELECT setval('s', 1)", "SELECT pg_sleep(1)", "SELECT pg_terminate_backend(1)", "SELECT lo_import('x')", "SELECT dblink('x', 'y')", "SELECT set_config('a', 'b', false)", "SELECT pg_advisory_lock(1)", "SELECT load_extension('x')", "SELECT f()", "SELECT f ()", "SELECT f/* */()", "SELECT f --\n()", "SELECT pg_catalog.lower('x')", "SELECT dbo.count(1)", `SELECT "count"(1)`, "SELECT `f`(1)", "SELECT [f](1)", "SELECT 'f'(1)", "SELECT last_insert_id(5)", "SELECT get_lock('a', 1)", "SELECT sleep(1)", "SELECT benchmark(1, 2)", "SELECT query_to_xml('DROP TABLE t', true, true, '')", "SELECT random()", "SELECT lower('x')(1)", "SELECT filter (x)", "SELECT over(x)", "SELECT a[1](2)",
		"SELECT * FROM dblink('x')", "SELECT * FROM openrowset('x')", "SELECT * FROM pg_read_file('x')", "SELECT * FROM url('x')", "SELECT * FROM read_csv('x')", "SELECT * FROM 'x.parquet'", "SELECT * FROM a JOIN 'x.parquet'", "SELECT * FROM t, 'http://x/y.csv'", "SELECT * FROM ('http://x/y.csv' CROSS JOIN t)", "SELECT * FROM (TABLE 's3://x/y.csv')", "SELECT * FROM t, '//host/y.csv'", "SELECT * FROM (PIVOT 's3://x/y.csv' ON a)", `SELECT * FROM "x.parquet"`, "SELECT * FROM [DELETE FROM t]", "SELECT * FROM [a b]", "SELECT [a'] ; DELETE FROM t --']",
		"SELECT ('s'::regclass).nextval", `SELECT ('s'::regclass)."nextval"`, "SELECT (7).pg_terminate_backend", `SELECT (7)."pg_terminate_backend"`, "SELECT ('x'::text).lo_import", "SELECT (SELECT 5).pg_advisory_lock", "SELECT x.pg_terminate_backend FROM generate_series(1, 5) x", "SELECT u.lo_import FROM lower('x') u", "SELECT lower.lo_import FROM lower('x')", "SELECT current_user.lo_import FROM current_user",
		"SELECT pg_catalog.pg_sleep FROM generate_series(1, 5) pg_catalog", `SELECT pg_catalog.pg_sleep FROM generate_series(1, 5) AS "pg_catalog"`, "SELECT ('DROP TABLE t'::text).dblink_exec", "SELECT x.crosstab2 FROM concat('SELECT 1, 2, nextval(''s'')') x", "SELECT ('a'::text).postgres_fdw_disconnect",
		"SELECT s.NEXTVAL FROM dual", "SELECT NEXT VALUE FOR s", "SELECT 1 ->> UNDROP TABLE t", "SELECT TRANSFORM (a) USING 'sh' FROM t", "MAP a USING 'sh'", "SELECT a FROM t MAP a USING 'x'", "SELECT a FROM t PROCEDURE ANALYSE()", "SELECT 1 SETTINGS a = 1",
		"SELECT /*! SLEEP(1) */ 1", "SELECT 1 /* x */", "SELECT /*!50000 1 */", "SELECT /*M! 1 */", "SELECT /*+ SET_VAR(a = 1) */ 1", "SELECT --+ x\n1", "SELECT 1 --x", "SELECT--- +x\n1", "SELECT 1 -/* x */ 2-- x\r", "SELECT 1 # x", "SELECT 1 /* /* */ */", "SELECT 1 /* x", "SELECT 1 /*/ x", "SELECT 1 -- x\rDELETE FROM t", "DEL/**/ETE FROM t", "SELECT 1\n/\n.shell rm x", "SELECT 1\r\n / \r\nHOST rm x", "SELECT 1\n\t/ -- x\n.shell rm x", "SELECT 1\n/ /* x */ -- y\n.shell rm x", "SELECT 1\n//* x */\n.shell rm x", "SELECT 1 FROM dual\n.\nHOST rm x", "SELECT 1 FROM dual\n\nHOST rm x", "SELECT 1 FROM dual\r\n \r\n ho rm x", "SELECT 1 FROM dual\n\nspool x", "SELECT 1\ngo -- x\n.shell rm x", "SELECT 1 */ 2",
		`SELECT 'a\'`, `SELECT 'a\' ; DELETE FROM t -- '`, "SELECT E'a'", "SELECT N'a'", "SELECT q'[a'b]'", "SELECT U&'a'", "SELECT x'00'", "SELECT _utf8'a'", `SELECT U&"a"`, "SELECT '''a'b; DELETE FROM t; '''", `SELECT """a"`, "SELECT 'a", `SELECT "a`, "SELECT `a", "SELECT [a", `SELECT ""`, `SELECT "a""b"`, "SELECT 'a\nb'", "SELECT 'a\x00'", "SELECT \"a'b\"", "SELECT `a b`",
		"SELECT $$a$$", "SELECT $a$b$a$", "SELECT $1$", "SELECT a$b", "SELECT $1a", "SELECT @x := 1", "SELECT @@version", "SELECT a:b", "SELECT :a", `SELECT 1 \G`, `\copy t to 'x'`, "SELECT 1 ^ 2", "SELECT a @> b", "SELECT a ~ 'b'", "SELECT é", "SELECT\u00a01", "SELECT 1\x00", "SELECT 1\v", "SELECT 1\r", "SELECT '\xff'", "SELECT 0x1F", "SELECT 1a", "SELECT {fn now()}", "SELECT a !! b",
		"EXPLAIN ANALYZE SELECT 1", "EXPLAIN (ANALYZE) SELECT 1", "EXPLAIN DELETE FROM t", "EXPLAIN PLAN FOR SELECT 1", "EXPLAIN", "EXPLAIN EXPLAIN SELECT 1", "EXPLAIN SELECT nextval('s')", "SHOW", "SHOW x", "SHOW CREATE DATABASE x", "SHOW TABLES; DELETE FROM t", "SHOW TABLES WHERE f(1)", "SHOW TABLES INTO x", "DESCRIBE", "DESC DELETE", "SHOW CREATE TABLE DELETE", "SHOW TABLES FROM DROP", "PRAGMA main.DELETE", "DESC DELETE FROM t", "DESC SELECT f()", "DESC t; DELETE FROM t", "DESCRIBE f(1)",
		"PRAGMA", "PRAGMA user_version = 1", "PRAGMA user_version(1)", "PRAGMA journal_mode = WAL", "PRAGMA journal_mode(WAL)", "PRAGMA optimize", "SELECT * FROM pragma_optimize", `SELECT * FROM "pragma_optimize"`, "SELECT * FROM t, 'pragma_optimize'", "PRAGMA wal_checkpoint", "PRAGMA writable_schema = 1", "PRAGMA table_info(t); DELETE FROM t", "PRAGMA table_info(a, b)", "PRAGMA table_info = t",
	}
}

func TestStatement(t *testing.T) {
	for _, s := range readingStatements() {
		if !statement(s) {
			t.Errorf("%q: got a write, want a read", s)
		}
		wantSameRewritten(t, s)
	}
	for _, s := range writingStatements() {
		if statement(s) {
			t.Errorf("%q: got a read, want a write", s)
		}
	}
	const most = 16 << 10
	long := "SELECT '" + strings.Repeat("a", most-len("SELECT ''")) + "'"
	if !statement(long) || statement(long+" ") {
		t.Errorf("a statement of %d bytes: want a read, one of more a write", most)
	}
}

// wantSameRewritten checks that a reading statement stays one with other letter case and blanks,
// but not with another statement after it.
func wantSameRewritten(t *testing.T, s string) {
	t.Helper()
	for _, same := range []string{strings.ToUpper(s), strings.ToLower(s), strings.ReplaceAll(s, " ", "  "), "\n" + s + "\n"} {
		if len(same) <= 16<<10 && !statement(same) {
			t.Errorf("%q: got a write, want a read like %q", same, s)
		}
	}
	for _, more := range []string{"\n; DELETE FROM t", "\n;; SELECT 1", "\nDELETE FROM t", "\nFOR UPDATE", "\nINTO x", "\n, f(1)", "\n'", "\n$$"} {
		if statement(s + more) {
			t.Errorf("%q: got a read, want a write", s+more)
		}
	}
}

func FuzzStatement(f *testing.F) {
	for _, s := range append(readingStatements(), writingStatements()...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !statement(s) {
			return
		}
		wantSameRewritten(t, s)
		for _, word := range strings.FieldsFunc(strings.ToUpper(outsideQuotes(s)), notInWord) {
			if slices.Contains(writingWords, word) {
				t.Errorf("%q: has %s", s, word)
			}
		}
	})
}

func notInWord(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }

// outsideQuotes blanks strings, quoted names and comments, one byte at a time.
func outsideQuotes(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		end := ""
		switch c := s[i]; {
		case c == '\'' || c == '"' || c == '`':
			end = s[i : i+1]
		case c == '[':
			end = "]"
		case strings.HasPrefix(s[i:], "--"):
			end = "\n"
		case strings.HasPrefix(s[i:], "/*"):
			end = "*/"
			i++
		default:
			out.WriteByte(c)
			continue
		}
		n := strings.Index(s[i+1:], end)
		if n < 0 {
			break
		}
		out.WriteByte(' ')
		i += n + len(end)
	}
	return out.String()
}

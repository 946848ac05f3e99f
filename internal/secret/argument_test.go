package secret_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/secret"
)

// TestFind: << and >> enclose what Find must return for arguments and URLs, with its name before
// it.
func TestFind(t *testing.T) {
	for _, tt := range []struct{ before, in, names string }{
		{"", "--token=<<a b c>>", "--token"},
		{"", "--env=API_KEY=<<k>>", "API_KEY"},
		{"", "Authorization:<<Bearer abc>>", "Authorization"},
		{"--api-key", "<<k>>", "--api-key"},
		{"--api-key", "--verbose", ""},
		{"--token-file", "x", ""},
		{"--token", "./secrets/token.txt", ""},
		{"--no-auth", "true", ""},
		{"", "serve --token <<abc>> --port 80", "--token"},
		{"", `{"password": "<<p w>>", "port": 80}`, "password"},
		{"", "x --token ${A} --password <<${B}hunter>>", "--password"},
		{"", "postgres://bob:<<p@ss>>@db/x", ""},
		{"", "https://<<tok123>>@h/mcp", ""},
		{"", "https://git@h/mcp", ""},
		{"", "https://h/s/<<abcdefghij0123456789abc>>/mcp?page=2&apiKey=<<k>>&v=2", " apiKey"},
		{"", "https://h/<<0e1f2a3b-4c5d-6e7f-8a9b-0c1d2e3f4a5b>>", ""},
		{"", "<<aB3dEfGh1JkLmN0pQrStUvWx>>", ""},
		{"", "https://mcp01-eu2.example-12.com:8080/mcp", ""},
		{"", "https://<<abcdefghij0123456789abcdef>>.example.com/mcp", ""},
		{"", "https://h/mcp?x=<<aB3-dE5_gH7-jK9-mN1>>", ""},
		{"", "--connection-string=<<Server=a;Pwd=b>>", "--connection-string"},
		{"--openaikey", "<<k>>", "--openaikey"},
		{"", "--basicauth=<<bob:pw>>", "--basicauth"},
		{"--session-timeout", "30m", ""},
		{"", "psql --user bob; python -u app.py; docker run -u 1000:1000 x", ""},
		{"", "@modelcontextprotocol/server-x@2025.1.1", ""},
		{"", "claude-3-5-sonnet-20241022", ""},
		{"", "/nix/store/abcdefghij0123456789abcdefghij01-x/bin", ""},
	} {
		in := strings.NewReplacer("<<", "", ">>", "").Replace(tt.in)
		var out, names strings.Builder
		done := 0
		for i, p := range secret.Find(in, tt.before) {
			if i > 0 {
				names.WriteByte(' ')
			}
			names.WriteString(p.Name)
			out.WriteString(in[done:p.From] + "<<" + in[p.From:p.To] + ">>")
			done = p.To
		}
		out.WriteString(in[done:])
		if out.String() != tt.in || names.String() != tt.names {
			t.Errorf("%q behind %q: got %q named %q, want %q named %q", in, tt.before, out.String(), names.String(), tt.in, tt.names)
		}
	}
}

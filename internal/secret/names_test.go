package secret_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/secret"
)

// samples are typical values of members: a word, a number, the key of an issue, an id, something
// short, something long.
var samples = []string{"Enter", "1234", "PROJ-1234", "9f8e7d6c-1a2b-4c3d-8e4f-123456789012", "hunter2", "Ab3dEf6hIj9kLm2nOp5qR"}

// goes returns the samples that are masked under a name.
func goes(name string) (gone []string) {
	for _, s := range samples {
		if in := fmt.Sprintf(`{%q:%q}`, name, s); string(secret.JSON([]byte(in))) != in {
			gone = append(gone, s)
		}
	}
	return gone
}

// Names of arguments and fields of 22 servers that resemble the name of a secret: of GitHub,
// GitLab, Grafana, browsers, Notion, git, databases.
func TestNamesOfRealTools(t *testing.T) {
	const (
		all   = "all"   // every value is masked, as it is or may be a secret
		token = "token" // only values that look like secrets are masked, as the name has other meanings too
		none  = "none"  // nothing is masked: ids, counts and switches, which follow-ups use
	)
	tests := []struct{ name, want, why string }{
		{"api_key", all, ""},
		{"password", all, ""},
		{"deleteKey", all, "of a snapshot: whoever has it may delete it"},
		{"token", all, ""},
		{"tokens", token, "a list of secrets, or a count: numbers stay"},
		{"tokenTicker", all, "of a currency: lost, for the sake of other tokens"},
		{"signerKey", all, "a fingerprint: lost, for the sake of other keys"},
		{"basicAuth", all, "a switch, which stays: true is no text"},
		{"withCredentials", all, "a switch too"},
		{"showSignature", token, "a switch too"},
		{"key", token, "of a keyboard, of an issue, of a store"},
		{"submitKey", none, "of a keyboard"},
		{"secret_type", none, "says what alerts are about"},
		{"tokenName", none, ""},
		{"sessionId", none, "of a browser, which calls are read off"},
		{"start_cursor", none, ""},
		{"author", none, ""}, {"keywords", none, ""}, {"assignees", none, ""}, {"signed", none, ""},
		{"signatureType", none, ""}, {"signingWarning", none, ""}, {"insightSetId", none, ""}, {"user_id", none, ""},

		// Names of other servers.
		{"issueIdOrKey", none, ""}, {"projectKey", none, ""}, {"file_key", none, ""}, {"space_key", none, ""},
		{"primary_key", none, ""}, {"sort_key", none, ""}, {"partitionKey", none, ""}, {"cache_key", none, ""},
		{"public_key", none, ""}, {"idempotency_key", none, ""}, {"sort_keys", none, ""},
		{"page_token", none, ""}, {"nextPageToken", none, ""}, {"continuationToken", none, ""}, {"syncToken", none, ""},
		{"max_tokens", none, ""}, {"token_count", none, ""}, {"tokens_per_second", none, ""}, {"stop_token", none, ""},
		{"first_pass", none, ""}, {"bypass", none, ""}, {"pass_rate", none, ""},
		{"pass", all, ""}, {"dbpass", all, ""}, {"pw", all, ""}, {"creds", all, ""}, {"auth", all, ""},
		{"access_token", all, ""}, {"sessionToken", all, ""}, {"start_session_token", all, ""}, {"X-CSRF-Token", all, ""},
		{"bot_token", all, ""}, {"mytoken", all, ""}, {"jwt", all, ""}, {"ssh_key", all, ""}, {"openai_key", all, ""},
		{"kennwort", all, ""}, {"Datenbank-Kennwort", all, ""}, {"contrasena", all, ""}, {"contraseña", all, ""}, {"stichwort", none, ""},
		{"ssn", all, ""}, {"socialSecurityNumber", all, ""}, {"iban", all, ""}, {"credit_card_number", all, ""},
		{"cardNumber", all, "of a board: lost, for the sake of payment cards"}, {"card_id", none, ""}, {"card", none, ""}, {"discard", none, ""},
		{"storage_key", all, ""}, {"client_secret", all, ""}, {"secureJsonData", all, ""}, {"verification_code", all, ""},
	}
	for _, tt := range tests {
		gone := goes(tt.name)
		t.Logf("%-20s %-80s %s", tt.name, strings.Join(gone, " "), tt.why)
		got := token
		switch {
		case len(gone) == 0:
			got = none
		case len(gone) == len(samples):
			got = all
		case !slices.Contains(gone, samples[len(samples)-1]):
			got = strings.Join(gone, " ")
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s: %v are masked", tt.name, got, tt.want, gone)
		}
	}
}

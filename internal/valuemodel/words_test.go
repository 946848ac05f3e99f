package valuemodel_test

import (
	"testing"

	"mcpschedd/internal/valuemodel"
)

func TestIntentNames(t *testing.T) {
	intent := valuemodel.NewIntent([]string{"the full DOMs of a page", "retryLogic"})
	for field, want := range map[string]bool{
		"full_dom": true, "fullDOM": true, "dom": true, "retry": true, "logic_url": true,
		"domain": false, "a": false, "of": true, "": false,
	} {
		if got := intent.Matches(valuemodel.FieldGroup{Fields: []string{"other", field}}); got != want {
			t.Errorf("%q: got %v, want %v", field, got, want)
		}
	}
	if valuemodel.NewIntent(nil).Matches(valuemodel.FieldGroup{Fields: []string{"dom"}}) {
		t.Error("without an intent: a name matched")
	}
}

package demo

// sourceTree returns the invoicing service that the issues are about. The bug
// is really in it: billing/webhook.go hands the event's id to chargeOnce,
// where docs/webhooks.md says that a retry has a new one.
func sourceTree() tree {
	return tree{
		"README.md": `# ledger

Invoices, payments and the nightly reconciliation. Start with docs/architecture.md.
`,
		"docs/architecture.md": `# Architecture

Orders arrive over HTTP (server/), become invoices (billing/invoice.go), and are
charged at the payment provider, either at once or by the nightly batch
(billing/batch.go). Everything that is booked goes through store/.
`,
		"docs/webhooks.md": `# Webhooks of the payment provider

The provider posts an event for each payment due and waits five seconds for our
answer. If none comes, it posts again, up to six times over a day.

* Every attempt is an event of its own, with an id of its own.
* All attempts carry the same invoice number.
* Events may arrive in any order.
`,
		"billing/charge.go": `package billing

import (
	"context"
	"fmt"

	"ledger/store"
)

// Charger takes money for invoices.
type Charger struct {
	Provider Provider
	Store    *store.Store
}

// chargeOnce charges an invoice unless the key was charged before. The key is
// written before the charge goes out: a crash in between costs us one payment,
// never the customer a second one.
func (c *Charger) chargeOnce(ctx context.Context, key string, inv Invoice) error {
	fresh, err := c.Store.Claim(ctx, key)
	if err != nil || !fresh {
		return err
	}
	paid, err := c.Provider.Charge(ctx, inv.Customer, inv.Total)
	if err != nil {
		return fmt.Errorf("charge %d: %w", inv.Number, err)
	}
	if first, err := c.Store.Book(ctx, inv.Number, paid); err != nil || first {
		return err
	}
	return fmt.Errorf("duplicate charge for invoice %d", inv.Number)
}
`,
		"billing/charge_test.go": `package billing

import "testing"

func TestChargeOnceSameKey(t *testing.T) {
	c, provider := newCharger(t)
	inv := Invoice{Number: 7, Customer: "c1", Total: 1200}
	for range 2 {
		if err := c.chargeOnce(t.Context(), "invoice/7", inv); err != nil {
			t.Fatal(err)
		}
	}
	if provider.charges != 1 {
		t.Errorf("got %d charges, want 1", provider.charges)
	}
}
`,
		"billing/webhook.go": `package billing

import (
	"encoding/json"
	"net/http"
)

// event is what the payment provider posts. See docs/webhooks.md for when it
// posts again.
type event struct {
	ID      string
	Invoice int
}

// ServeHTTP answers the payment provider's webhook.
func (c *Charger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	inv, err := c.invoice(r.Context(), e.Invoice)
	if err == nil {
		err = c.chargeOnce(r.Context(), "event/"+e.ID, inv)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
`,
		"billing/batch.go": `package billing

import "context"

// Batch charges what is still open at the end of the day.
func (c *Charger) Batch(ctx context.Context, open []Invoice) error {
	for _, inv := range open {
		if err := c.collect(ctx, inv); err != nil {
			return err
		}
	}
	return nil
}
`,
		"billing/invoice.go": `package billing

// Invoice is what a customer owes for one order.
type Invoice struct {
	Number   int
	Customer string
	Total    int // cents
}
`,
		"store/store.go": `package store

import (
	"context"
	"database/sql"
)

// Store is the database.
type Store struct{ db *sql.DB }

// Claim reports whether key is new, and remembers it.
func (s *Store) Claim(ctx context.Context, key string) (bool, error) {
	r, err := s.db.ExecContext(ctx, "INSERT INTO claims VALUES ($1) ON CONFLICT DO NOTHING", key)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n == 1, err
}
`,
		"store/migrations/001_invoices.sql": `CREATE TABLE invoices (number BIGINT PRIMARY KEY, customer TEXT NOT NULL, total BIGINT NOT NULL);
`,
		"store/migrations/002_claims.sql": `CREATE TABLE claims (key TEXT PRIMARY KEY);
`,
		"export/pdf.go": `package export

// columns that fit the page in portrait.
const columns = 8
`,
		"server/main.go": `package main

import "net/http"

func main() {
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/payments", charger())
	http.ListenAndServe(":8080", mux)
}
`,
	}
}

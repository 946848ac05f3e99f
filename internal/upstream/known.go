package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// Store keeps what a server offered between runs. Nil functions keep nothing.
type Store struct {
	Load func() ([]byte, error)
	// Save replaces what is kept by what next makes of it, which may have changed since
	// it was loaded, because other processes save too. next is given nil if there is
	// nothing.
	Save func(next func(old []byte) ([]byte, error)) error
}

// Known reads the offer that was kept last, whichever client it was made to; the
// error wraps fs.ErrNotExist if none is kept.
func (s Store) Known() (*Offer, error) {
	copies, err := s.load()
	if err != nil {
		return nil, err
	}
	return copies[0].offer, nil
}

// load reads what is kept: at least one copy.
func (s Store) load() (copies, error) {
	if s.Load == nil {
		return nil, fs.ErrNotExist
	}
	data, err := s.Load()
	if err != nil {
		return nil, err
	}
	kept, err := decodeCopies(data)
	if err == nil && len(kept) == 0 {
		return nil, fmt.Errorf("last-known copy: %w", fs.ErrNotExist)
	}
	return kept, err
}

const (
	// mostCopies is for how many kinds of clients the offer of one server is kept; the
	// oldest copy is dropped first.
	mostCopies = 8
	// mostCapabilities (bytes) is how long a client's capabilities may be for its
	// copy to be kept.
	mostCapabilities = 4 << 10
)

// copies are the last-known offers of a server, the latest first. There is one for
// each set of client capabilities, because servers offer other tools to a client
// that can be asked for samples, input or roots.
type copies []clientCopy

type clientCopy struct {
	client string // its capabilities, in the canonical text
	offer  *Offer
}

// of returns the offer to such a client, nil if none is known.
func (c copies) of(client string) *Offer {
	for _, kept := range c {
		if kept.client == client {
			return kept.offer
		}
	}
	return nil
}

// with returns the copies with this one first.
func (c copies) with(client string, offer *Offer) copies {
	out := copies{{client, offer}}
	for _, kept := range c {
		if kept.client != client && len(out) < mostCopies {
			out = append(out, kept)
		}
	}
	return out
}

// copyKey names the copies for clients that can do the same.
func (c Client) copyKey() string {
	raw := c.capabilities()
	if canonical, ok := jsonrpc.AppendCanonical(nil, raw); ok {
		raw = canonical
	}
	return string(raw)
}

// offerFormat is the version of the file that keeps offers.
const offerFormat = "2"

func (c copies) encode() []byte {
	out := append([]byte(`{"format":`), offerFormat...)
	out = append(out, `,"copies":[`...)
	for i, kept := range c {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, "\n{\"client\":"...), kept.client...)
		out = append(kept.offer.append(append(out, `,"offer":`...)), '}')
	}
	return append(out, "]}\n"...)
}

// decodeCopies reads what encode wrote. A file of another format, or one cut short by
// a crash, is an error, and is replaced by the next save.
func decodeCopies(data []byte) (copies, error) {
	if !jsonrpc.Valid(data) {
		return nil, errors.New("last-known copy: not valid JSON")
	}
	if format := jsonrpc.Get(data, "format"); string(format) != offerFormat {
		return nil, fmt.Errorf("last-known copy: want format %s, have %q", offerFormat, format)
	}
	var out copies
	for raw := range jsonrpc.Elements(jsonrpc.Get(data, "copies")) {
		client, ok := jsonrpc.AppendCanonical(nil, jsonrpc.Get(raw, "client"))
		if offer := jsonrpc.Get(raw, "offer"); ok && offer != nil && len(out) < mostCopies {
			out = append(out, clientCopy{string(client), decodeOffer(offer)})
		}
	}
	return out, nil
}

// known is what a server has offered so far, to clients of this process and of
// earlier ones.
type known struct {
	store  Store
	saving sync.Mutex // held while a copy is written, so that writes keep their order

	mu     sync.Mutex
	copies copies
}

func (k *known) to(client Client) *Offer {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.copies.of(client.copyKey())
}

// legacy reports whether the server is known to have no stateless revision.
func (k *known) legacy() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.copies, func(c clientCopy) bool { return c.offer.Legacy })
}

// remember keeps an offer for the next instance and the next run.
func (k *known) remember(client Client, offer *Offer) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	key := client.copyKey()
	k.mu.Lock()
	same := k.copies.of(key).equal(offer)
	if !same {
		k.copies = k.copies.with(key, offer)
	}
	k.mu.Unlock()
	if same || k.store.Save == nil || len(key) > mostCapabilities || !jsonrpc.Valid([]byte(key)) {
		return nil
	}
	return k.store.Save(func(old []byte) ([]byte, error) {
		kept, err := decodeCopies(old)
		if err != nil {
			kept = nil // there was none, or none that can be read
		}
		return kept.with(key, offer).encode(), nil
	})
}

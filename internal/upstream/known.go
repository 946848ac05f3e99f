package upstream

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

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
	offers, err := s.load()
	if err != nil {
		return nil, err
	}
	return offers[0].Offer, nil
}

// load reads what is kept: at least one offer.
func (s Store) load() ([]knownOffer, error) {
	if s.Load == nil {
		return nil, fs.ErrNotExist
	}
	data, err := s.Load()
	if err != nil {
		return nil, err
	}
	offers, err := decodeKnown(data)
	if err == nil && len(offers) == 0 {
		return nil, fmt.Errorf("last-known copy: %w", fs.ErrNotExist)
	}
	return offers, err
}

const (
	knownFormat = 3 // the version of the file that keeps offers
	// mostKnown is for how many kinds of clients the offer of one server is kept; the
	// oldest is dropped first.
	mostKnown = 8
	// mostCapabilities (bytes) is how long a client's capabilities may be for the offer
	// made to it to be kept.
	mostCapabilities = 4 << 10
)

// knownFile is what the store holds, the latest offer first.
type knownFile struct {
	Format int          `json:"format"`
	Copies []knownOffer `json:"copies"`
}

// knownOffer is what a server last offered to the clients with one set of
// capabilities: servers offer other tools to a client that can be asked for samples,
// input or roots.
type knownOffer struct {
	Client string `json:"client"` // its capabilities, in the canonical text
	Offer  *Offer `json:"offer"`
}

// decodeKnown reads a store. A file of another format, or one cut short by a crash, is
// an error, and is replaced by the next save.
func decodeKnown(data []byte) ([]knownOffer, error) {
	var file knownFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("last-known copy: %w", err)
	}
	if file.Format != knownFormat {
		return nil, fmt.Errorf("last-known copy: want format %d, have %d", knownFormat, file.Format)
	}
	return slices.DeleteFunc(file.Copies, func(k knownOffer) bool { return k.Offer == nil }), nil
}

// withOffer returns the offers with this one first.
func withOffer(offers []knownOffer, first knownOffer) []knownOffer {
	out := []knownOffer{first}
	for _, k := range offers {
		if k.Client != first.Client && len(out) < mostKnown {
			out = append(out, k)
		}
	}
	return out
}

// known is what a server has offered so far, to clients of this process and of
// earlier ones.
type known struct {
	store   Store
	offers  atomic.Pointer[[]knownOffer] // the latest first; never changed
	writing sync.Mutex                   // held while an offer is added and saved
}

func (k *known) list() []knownOffer {
	if offers := k.offers.Load(); offers != nil {
		return *offers
	}
	return nil
}

func (k *known) set(offers []knownOffer) { k.offers.Store(&offers) }

// to returns the offer last made to such a client, nil if none is known.
func (k *known) to(client Client) *Offer { return offerTo(k.list(), client.key()) }

func offerTo(offers []knownOffer, client string) *Offer {
	for _, k := range offers {
		if k.Client == client {
			return k.Offer
		}
	}
	return nil
}

// legacy reports whether the server is known to have no stateless revision.
func (k *known) legacy() bool {
	return slices.ContainsFunc(k.list(), func(o knownOffer) bool { return o.Offer.Legacy })
}

// remember keeps an offer for the next instance and the next run.
func (k *known) remember(client Client, offer *Offer) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	made := knownOffer{client.key(), offer}
	if reflect.DeepEqual(offerTo(k.list(), made.Client), offer) {
		return nil
	}
	k.set(withOffer(k.list(), made))
	if k.store.Save == nil || len(made.Client) > mostCapabilities {
		return nil
	}
	return k.store.Save(func(old []byte) ([]byte, error) {
		offers, err := decodeKnown(old)
		if err != nil {
			offers = nil // there were none, or none that can be read
		}
		return json.Marshal(knownFile{knownFormat, withOffer(offers, made)})
	})
}

// key names the offers to clients that can do the same.
func (c Client) key() string {
	raw := c.capabilities()
	if canonical, ok := jsonrpc.AppendCanonical(nil, raw); ok {
		raw = canonical
	}
	return string(raw)
}

package secret

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a handler that masks the attributes of records before passing them to
// h. Messages are constant texts and are not masked.
func (m *Masker) Handler(h slog.Handler) slog.Handler { return &handler{h, m} }

type handler struct {
	slog.Handler
	m *Masker
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.m.attrs([]slog.Attr{a})...)
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(h.m.attrs(attrs)), h.m}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.m}
}

// attrs masks the texts of attributes.
func (m *Masker) attrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		switch v := a.Value.Resolve(); v.Kind() {
		case slog.KindGroup:
			a.Value = slog.GroupValue(m.attrs(v.Group())...)
		case slog.KindString, slog.KindAny:
			a.Value = slog.StringValue(m.Text(fmt.Sprint(v.Any())))
		}
		out[i] = a
	}
	return out
}

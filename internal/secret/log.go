package secret

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a handler that masks the attributes of records before passing them to h.
// Messages are constant texts and are not masked.
func (m *Masker) Handler(h slog.Handler) slog.Handler { return &handler{h, m} }

type handler struct {
	slog.Handler
	m *Masker
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.m.attr(a))
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

func (m *Masker) attrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = m.attr(a)
	}
	return out
}

// attr masks the text of an attribute.
func (m *Masker) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, m.Text(v.String()))
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(m.attrs(v.Group())...)}
	case slog.KindAny:
		switch value := v.Any().(type) {
		case error:
			return slog.String(a.Key, m.Text(value.Error()))
		case fmt.Stringer:
			return slog.String(a.Key, m.Text(value.String()))
		case []string:
			lines := make([]string, len(value))
			for i, line := range value {
				lines[i] = m.Text(line)
			}
			return slog.Any(a.Key, lines)
		}
	}
	return a
}

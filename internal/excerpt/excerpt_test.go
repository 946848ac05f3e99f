package excerpt_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/excerpt"
)

func TestCut(t *testing.T) {
	word := strings.Repeat("word ", 200)
	row := func(n int) string { return fmt.Sprintf(`{"id":%d,"title":"of some length"}`, n) }
	for _, c := range []struct {
		name, value string
		chars       int
		out         string
		left        []excerpt.Omission
	}{
		{"what fits is as it was", ` {"a" : [1.0, 1e400]} `, 22, `{"a" : [1.0, 1e400]}`, nil},
		{
			"the first items, whole", `[` + row(1) + `,` + row(2) + `,` + row(3) + `]`, 80,
			`[` + row(1) + `,` + row(2) + `]`,
			[]excerpt.Omission{{"", "items", 2, 1, 33}},
		},
		{
			"small fields before a large one", `{"n":1,"text":"` + word + `","ok":true,"z":[1,2,3]}`, 80,
			`{"n":1,"text":"` + word[:41] + `","ok":true,"z":[1,2,3]}`,
			[]excerpt.Omission{{"/text", "text", 41, 959, 959}},
		},
		{
			"large ones share alike", `{"a":"` + word + `","b":["` + word + `"],"c":1}`, 130,
			`{"a":"` + word[:54] + `","b":["` + word[:52] + `"],"c":1}`,
			[]excerpt.Omission{{"/a", "text", 54, 946, 946}, {"/b/0", "text", 52, 948, 948}},
		},
		{
			"the first of many fields", `{"a":"some text","b":"some more","c":"and more","d":4}`, 30, `{"a":"some text"}`,
			[]excerpt.Omission{{"", "fields", 1, 3, 34}},
		},
		{
			"one field", `{"n~/":` + strings.Repeat("1", 100) + `,"b":1}`, 60, `{"b":1}`,
			[]excerpt.Omission{{"/n~0~1", "field", 0, 1, 100}},
		},
		{
			"one field with a long name", `{"` + word + `":1,"b":1}`, 60, `{"b":1}`,
			[]excerpt.Omission{{"", "fields", 0, 1, 1004}},
		},
		{
			"of a large item the beginning, if there is nothing else", `["` + word + `","` + word + `"]`, 120, `["` + word[:116] + `"]`,
			[]excerpt.Omission{{"/0", "text", 116, 884, 884}, {"", "items", 1, 1, 1002}},
		},
		{
			"no character is divided", `"äöü\u00e4\ud83d\ude00x` + word + `"`, 6, `"äöüä"`,
			[]excerpt.Omission{{"", "text", 8, 1002, 1005}},
		},
		{
			"what one does not use another one gets", `{"rows":["` + word[:30] + `","` + word[:30] + `"],"text":"` + word + `"}`, 120,
			`{"rows":["` + word[:30] + `"],"text":"` + word[:66] + `"}`,
			[]excerpt.Omission{{"/rows", "items", 1, 1, 32}, {"/text", "text", 66, 934, 934}},
		},
		{
			"no item behind one that is left out", `[` + strings.Repeat("1", 200) + `,"` + word + `"]`, 120, `[]`,
			[]excerpt.Omission{{"", "items", 0, 2, 1202}},
		},
		{"a string that stands alone", `"some text"`, 5, `"som"`, []excerpt.Omission{{"", "text", 3, 6, 6}}},
		{"a number that does", `12345678`, 5, `null`, []excerpt.Omission{{"", "text", 0, 8, 8}}},
		{"nothing", `[1,2]`, 1, `[]`, []excerpt.Omission{{"", "items", 0, 2, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, left := excerpt.Cut([]byte(c.value), c.chars)
			if string(out) != c.out {
				t.Errorf("got  %s\nwant %s", out, c.out)
			}
			if diff := cmp.Diff(c.left, left); diff != "" {
				t.Errorf("left out: -want +got\n%s", diff)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"word", 4, "word"},
		{"words", 4, "w…"},
		{"größer", 6, "gr…"},
		{"größer", 8, "größer"},
		{"wo\xff\xfed", 6, "wo\ufffdd"},
		{"wo\xff\xfed", 5, "wo…"},
		{"words", 3, ""},
		{"words", -1, ""},
	} {
		if got := excerpt.Shorten(c.text, c.limit); got != c.want {
			t.Errorf("%q in %d bytes: got %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}

const all = 1 << 30 // characters

func TestRead(t *testing.T) {
	const value = `{"items":[{"a":1},{"b":2},{"c":"0123456789ä"}],"x":null}`
	for _, c := range []struct {
		pointer string
		offset  int
		chars   int
		out     string
		left    []excerpt.Omission
	}{
		{"", 0, all, value, nil},
		{"/items", 1, all, `[{"b":2},{"c":"0123456789ä"}]`, nil},
		{"/items", 1, 11, `[{"b":2}]`, []excerpt.Omission{{"/items", "items", 2, 1, 20}}},
		{"/items/2", 0, 3, `{}`, []excerpt.Omission{{"/items/2/c", "field", 0, 1, 14}}},
		{"/items/2/c", 8, all, `"89ä"`, nil},
		{"/items/2/c", 11, all, `"ä"`, nil},
		{"/items/2/c", 2, 6, `"2345"`, []excerpt.Omission{{"/items/2/c", "text", 6, 5, 6}}},
		{"", 1, all, `{"x":null}`, nil},
		{"", 9, all, `{}`, nil},
		{"/items/0/a", 3, all, `1`, nil},
		{"/no", 0, all, "", nil},
		{"no", 0, all, "", nil},
	} {
		out, left := excerpt.Read([]byte(value), c.pointer, c.offset, c.chars)
		if string(out) != c.out || !cmp.Equal(left, c.left) {
			t.Errorf("%q from %d: got %s, left %+v, want %s, left %+v", c.pointer, c.offset, out, left, c.out, c.left)
		}
	}
}

// Texts far over the limit are not counted as a whole, and few texts are counted.
func TestFitCountsLittle(t *testing.T) {
	items := "[" + strings.Repeat(`{"id":12345,"name":"some name of some length","ok":true},`, 60_000) + "1]"
	for _, value := range []string{items, `"` + strings.Repeat("x y ", 1<<20) + `"`, `{"a":` + items + `}`} {
		for _, bytesPerToken := range []int{2, 3, 7} {
			counted, calls := 0, 0
			limit := excerpt.Limit{Tokens: 2000, Chars: 100_000, Count: func(b []byte) int {
				calls++
				counted += len(b)
				return len(b) / bytesPerToken
			}}
			out := limit.Fit(len(value), func(chars int) []byte {
				out, _ := excerpt.Cut([]byte(value), chars)
				return out
			})
			if counted > 16*2000*4 || calls > 10 {
				t.Errorf("%d bytes were counted, in %d calls", counted, calls)
			}
			if n := len(out) / bytesPerToken; n > 2000 || n < 1500 {
				t.Errorf("got %d tokens of 2000", n)
			}
		}
	}
}

// The limit includes the text around the excerpt. If that alone is too long, Fit returns nil.
func TestFitOfMore(t *testing.T) {
	build := func(beside int) func(chars int) []byte {
		return func(chars int) []byte { return []byte(strings.Repeat("x", chars+beside)) }
	}
	for _, c := range []struct {
		limit        excerpt.Limit
		size, beside int
		least, most  int
	}{
		{excerpt.Limit{}, 500, 100, 600, 600},
		{excerpt.Limit{Chars: 300}, 500, 100, 250, 300},
		{excerpt.Limit{Tokens: 100}, 5000, 100, 320, 403},
		{excerpt.Limit{Tokens: 100, Chars: 300}, 5000, 100, 250, 300},
		{excerpt.Limit{Tokens: 20}, 5000, 100, 0, 0},
		{excerpt.Limit{Chars: 99}, 5000, 100, 0, 0},
	} {
		if got := len(c.limit.Fit(c.size, build(c.beside))); got < c.least || got > c.most {
			t.Errorf("%+v: got %d characters, want from %d to %d", c, got, c.least, c.most)
		}
	}
}

// Scanning a nested value takes at most a few times its length.
func TestCutLooksLittle(t *testing.T) {
	rows := "[" + strings.Repeat(`{"id":12345},`, 1000) + "1]"
	for depth, want := range map[int]int{4: 4, 20: 20, 32: 32, 60: 33, 9000: 33} {
		_, left := excerpt.Cut([]byte(strings.Repeat(`{"a":`, depth)+rows+strings.Repeat("}", depth)), 1000)
		if n := strings.Count(left[0].Pointer, "/"); len(left) != 1 || n != want {
			t.Errorf("%d levels: got %d parts left out, the first %d levels down, want one at %d", depth, len(left), n, want)
		}
	}
}

// Similar fields of a large object are not listed one by one.
func TestCutNamesLittle(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,"k%d":%q`, i, strings.Repeat("x", i%40))
	}
	value := "{" + b.String()[1:] + "}"
	out, left := excerpt.Cut([]byte(value), 4000)
	if len(left) > 5 || utf8.RuneCount(out) < 3500 {
		t.Errorf("got %d characters of 4000, %d parts left out", len(out), len(left))
	}
}

// TestCutManyItems: the time of a cut is proportional to the length of the value.
func TestCutManyItems(t *testing.T) {
	const items = 1 << 18
	value := []byte("[" + strings.Repeat("1,", items) + "1]")
	cut := func(chars int) time.Duration {
		began := time.Now()
		excerpt.Cut(value, chars)
		return time.Since(began)
	}
	if few, many := cut(100), cut(items); many > 20*few+2*time.Second {
		t.Errorf("a cut to half of the items took %v, one to a few %v", many, few)
	}
}

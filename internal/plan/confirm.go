package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Risk is why a step is not run unasked.
type Risk struct {
	Step      *Step
	Writes    bool    // it may change something, and that is to be confirmed
	Disclosed []*Step // third parties learn what came of these; nil: of none
}

// Risks are the steps that the user has to confirm: in every mode those that tell third
// parties what came of others, and those that may change something if these are to be
// confirmed too.
func (p *Plan) Risks(writes bool) (all []Risk) {
	for _, s := range p.Steps {
		one := Risk{s, writes && s.Writes, p.Discloses(s)}
		if one.Writes || one.Disclosed != nil {
			all = append(all, one)
		}
	}
	return all
}

// Discloses are the steps whose outcome third parties could learn from calls of a step:
// those whose results its arguments, condition or items refer to, and those whose
// failure would keep it from being run. There are none if the step's tool tells third
// parties nothing, or the step says only what the plan's author wrote.
func (p *Plan) Discloses(s *Step) []*Step {
	if !s.Tool.discloses() {
		return nil
	}
	var told []*Step
	for i, to := range p.Steps {
		waits := slices.Contains(s.After, i)
		required := waits && !slices.Contains(s.Order, i) && to.OnError == Fail
		stops := s.Writes && to.stopsWrites() && (i < s.Index || waits) // see execution.afterBroken
		if slices.Contains(s.Needs, i) || required || stops {
			told = append(told, to)
		}
	}
	return told
}

// String says what the step does that has to be confirmed.
func (k Risk) String() string {
	var all []string
	switch {
	case k.Writes && k.Step.Tool.Unclassified:
		all = append(all, "is unclassified, so it may change something")
	case k.Writes:
		all = append(all, "may change something")
	}
	if k.Disclosed != nil {
		all = append(all, "tells third parties "+outcomes(k.Disclosed))
	}
	return fmt.Sprintf("step %q (%s) %s", k.Step.ID, visible(k.Step.Tool.Name), strings.Join(all, " and "))
}

// outcomes names what third parties learn.
func outcomes(told []*Step) string {
	var ids []string
	for _, s := range told {
		ids = append(ids, strconv.Quote(s.ID))
	}
	return "what came of " + strings.Join(ids, ", ")
}

// mostShown is how many characters a user is asked to read. What takes more is not
// run at all: what is cut off could be what matters.
const mostShown = 6000

// Confirmation is what the user is asked. It shows all that the plan itself says of these
// steps, where what they tell comes from, and what it hands them in place of a result.
func (p *Plan) Confirmation(risks []Risk) (message string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Run this plan? %d of its %d steps may change something or tell others:\n", len(risks), len(p.Steps))
	if p.Params != nil {
		fmt.Fprintf(&b, "with params %s\n", legible(p.Params))
	}
	shown, from := make([]bool, len(p.Steps)), make([]bool, len(p.Steps))
	for _, one := range risks {
		one.Step.describe(&b, "- ")
		shown[one.Step.Index] = true
		if one.Disclosed != nil {
			fmt.Fprintf(&b, "  tells third parties %s\n", outcomes(one.Disclosed))
		}
		for _, s := range one.Disclosed {
			from[s.Index] = true
			p.reach(s, from)
		}
	}
	for _, s := range p.Steps {
		if from[s.Index] && !shown[s.Index] {
			s.describe(&b, "before that, ")
		}
	}
	for _, s := range p.Steps {
		if s.OnError == Default {
			fmt.Fprintf(&b, "if %s fails, in place of its result: %s\n", s.ID, legible(s.Default))
		}
	}
	if utf8.RuneCountInString(b.String()) > mostShown {
		return "", fmt.Errorf("the plan was not run: what has to be confirmed takes more than %d characters to show, which is more than a user is asked to read; send it in parts", mostShown)
	}
	return b.String(), nil
}

// ConfirmCall is what the user is asked of one call outside a plan. It shows all of it.
func ConfirmCall(tool string, arguments []byte) (message string, err error) {
	message = fmt.Sprintf("Call %s? It may change something.\nwith %s", visible(tool), legible(arguments))
	if utf8.RuneCountInString(message) > mostShown {
		return "", fmt.Errorf("not called: the user has to confirm it, and its arguments take more than %d characters to show, which is more than a user is asked to read", mostShown)
	}
	return message, nil
}

// Unconfirmed is why a plan is not run where the user could not be asked: which steps have
// to be confirmed, and what would do instead.
func Unconfirmed(risks []Risk, why string) error {
	var steps, lines []string
	for _, k := range risks {
		steps = append(steps, k.String())
		t := k.Step.Tool
		if k.Writes {
			lines = append(lines, `[plan].mutations = "allow" for what may change something`)
		}
		if k.Writes && t.Unclassified {
			lines = append(lines, fmt.Sprintf(`[tools.%q].side_effect_class = "read_only" if it only reads`, t.Configured))
		}
		if k.Disclosed != nil {
			lines = append(lines, fmt.Sprintf(`[tools.%q].disclosure = "same_service" if it sends nothing to third parties`, t.Configured))
		}
	}
	slices.Sort(lines) // those of [plan] first
	lines = slices.Compact(lines)
	return fmt.Errorf("the plan was not run: the user has to confirm it, and %s. To be confirmed: %s. "+
		"Instead, make these calls by themselves; or the operator sets %s", why, strings.Join(steps, "; "), strings.Join(lines, ", "))
}

// Consent is what a plan may do besides reading: what its user has read and agreed to.
type Consent map[*Step]Risk

// NewConsent is consent to all these.
func NewConsent(risks []Risk) Consent {
	c := make(Consent)
	for _, one := range risks {
		c[one.Step] = one
	}
	return c
}

// Check is why a call of a step is not made that tells third parties of others, or may
// change something, as mutations ("allow", "confirm" or "deny") are dealt with now: when
// its plan was let through its arguments were not known, or the rules were others.
func (c Consent) Check(call Call, told []*Step, mutations string) error {
	s := call.Step
	if told != nil && c[s].Disclosed == nil {
		return fmt.Errorf("not called: it tells third parties %s, which was not known before, so the user has not confirmed it", outcomes(told))
	}
	if s.Writes && (mutations == "allow" || mutations == "confirm" && c[s].Writes) || !s.Tool.Writes(call.Arguments) {
		return nil
	}
	return fmt.Errorf("not called: it may change something, which could not be told before ([plan].mutations = %q)", mutations)
}

// describe shows a step: what the plan says of when, how often and with what its tool
// is called.
func (s *Step) describe(b *strings.Builder, mark string) {
	fmt.Fprintf(b, "%s%s: ", mark, s.ID)
	if s.When != nil {
		fmt.Fprintf(b, "if %s, ", legible(jsonrpc.Get(s.written, "when")))
	}
	b.WriteString(visible(s.Tool.Name))
	if s.ForEach != nil {
		fmt.Fprintf(b, " for each of up to %d items of %s,", s.ForEach.MaxItems, legible(jsonrpc.Get(s.written, "for_each")))
	}
	arguments := jsonrpc.Get(s.written, "arguments")
	if text, ok := jsonrpc.String(arguments); ok && text != "" {
		arguments = []byte(text) // the guide's form
	}
	fmt.Fprintf(b, " %s\n", legible(arguments))
}

// legible shows JSON that others wrote so that nothing in it looks like anything
// else: on one line, without white space between its parts or escapes for what can
// be written, and with escapes for what cannot be seen.
func legible(written []byte) string {
	if len(written) == 0 {
		return "{}"
	}
	if canonical, ok := jsonrpc.AppendCanonical(nil, written); ok {
		written = canonical
	}
	return visible(string(written))
}

// visible shows what cannot be seen, or looks like a space and is none.
func visible(text string) string {
	var b strings.Builder
	for _, c := range text {
		if c == ' ' || unicode.IsGraphic(c) && !unicode.IsSpace(c) && !blank(c) {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", c)
		}
	}
	return b.String()
}

// blank reports whether a letter is drawn as nothing: Hangul fillers, an empty
// Braille pattern, and marks that only change what stands before them.
func blank(c rune) bool {
	switch c {
	case 0x115f, 0x1160, 0x3164, 0xffa0, 0x2800, 0x034f, 0x17b4, 0x17b5:
		return true
	}
	return unicode.Is(unicode.Variation_Selector, c)
}

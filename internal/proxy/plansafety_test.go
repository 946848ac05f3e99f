package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// consent runs a plan whose user gives the answer, and returns the question to the user, or
// "".
func consent(t *testing.T, p *proxy.Server, tool, arguments, action string) (message string, answer jsonrpc.Message) {
	t.Helper()
	c := attach(t, p, handshake)
	asked := make(chan string, 10)
	c.reply(func(_ string, params []byte) []byte {
		text, _ := jsonrpc.String(jsonrpc.Get(params, "message"))
		asked <- text
		return []byte(`{"action":"` + action + `","content":{}}`)
	})
	answer = c.ableTo(able, tool, arguments)
	select {
	case message = <-asked:
	default:
	}
	return message, answer
}

// The user reads everything that a plan may change, in one canonical form, whatever the client
// did to make it look short or like something else.
func TestPlanConfirmationShowsAll(t *testing.T) {
	put := func(arguments string) string { return `{"id":"w","tool":"put","arguments":` + arguments + `}` }
	const etc = `- w: put {"path":"/etc/passwd","rm":true}` + "\n"
	for name, test := range map[string]struct{ steps, shows string }{
		"white space":        {put(`{` + strings.Repeat(" ", 500) + `"path":` + strings.Repeat(" ", 7000) + `"/etc/passwd","rm":true}`), etc},
		"escaped":            {put(`{"\u0070\u0061th":"\u002fetc\/passwd","rm":true}`), etc},
		"in a text":          {put(`"{\"path\":\"/etc/passwd\",   \"rm\":true}"`), etc},
		"escaped in a text":  {put(`"{\"p\\u0061th\":\"\\u002fetc\\u002fpasswd\",\"rm\":true}"`), etc},
		"a text of escapes":  {put(`"\u007b\u0022path\u0022:\u0022/etc/passwd\u0022,\u0022rm\u0022:true}"`), etc},
		"a letter as blank":  {put(`{"p":"x` + strings.Repeat("\u3164", 3) + `","rm":"/etc"}`), `{"p":"x\u{3164}\u{3164}\u{3164}","rm":"/etc"}` + "\n"},
		"bidi":               {put("{\"p\":\"\u202etxt.exe\u2066\"}"), `{"p":"\u{202e}txt.exe\u{2066}"}` + "\n"},
		"escaped bidi":       {put(`{"p":"\u202etxt.exe"}`), `{"p":"\u{202e}txt.exe"}` + "\n"},
		"no width":           {put("{\"p\":\"a\u200bb\u200dc\ufeffd\u00ade\"}"), `{"p":"a\u{200b}b\u{200d}c\u{feff}d\u{ad}e"}` + "\n"},
		"other spaces":       {put("{\"p\":\"a\u00a0b\u2003c\u3000d\u0085e\"}"), `{"p":"a\u{a0}b\u{2003}c\u{3000}d\u{85}e"}` + "\n"},
		"lines of Unicode":   {put("{\"p\":\"a\u2028b\u2029c\"}"), `{"p":"a\u2028b\u2029c"}` + "\n"},
		"tags and variants":  {put("{\"p\":\"a\U000e0041b\ufe0fc\U000e0100d\"}"), `{"p":"a\u{e0041}b\u{fe0f}c\u{e0100}d"}` + "\n"},
		"in a name":          {put("{\"p\u202e\":1}"), `{"p\u{202e}":1}` + "\n"},
		"looks escaped":      {put(`{"p":"\\u{3164}"}`), `{"p":"\\u{3164}"}` + "\n"},
		"lines":              {put(`{"p":"a\n- x: get {}\r\n"}`), `- w: put {"p":"a\n- x: get {}\r\n"}` + "\n"},
		"other letters":      {put(`{"p":"Grüße ✓ 日本"}`), `{"p":"Grüße ✓ 日本"}` + "\n"},
		"references":         {`{"id":"a","tool":"find"},` + put(`{"p":{"$ref":"a#/x","default":"/etc"},"q":{"$tpl":"rm ${a#/y}"}}`), `{"p":{"$ref":"a#/x","default":"/etc"},"q":{"$tpl":"rm ${a#/y}"}}` + "\n"},
		"items of a default": {`{"id":"a","tool":"find"},{"id":"w","tool":"put","for_each":{"$ref":"a#/nothing","default":["/home","/\u0065tc"]},"arguments":{"rm":{"$ref":"item#"}}}`, `["/home","/etc"]`},
		"in place of a result": {`{"id":"a","tool":"fail","on_error":"default","default":{"path":"/\u0065tc"}},` + put(`{"rm":{"$ref":"a#/path"}}`),
			`if a fails, in place of its result: {"path":"/etc"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := planning(t, handshake, nil)
			message, answer := consent(t, p, "execute_tool_plan", `{"steps":[`+test.steps+`]}`, "decline")
			if !strings.Contains(message, test.shows) {
				t.Errorf("got %q\nwant %q in it: %.300s", message, test.shows, answer.Raw)
			}
			if steps := strings.Count(message, "\n- "); steps != 1 {
				t.Errorf("%d lines begin as a step does: %q", steps, message)
			}
			if hidden := strings.IndexFunc(message, func(c rune) bool { return c != '\n' && !unicode.IsGraphic(c) }); hidden >= 0 {
				t.Errorf("at %d of %q is what cannot be seen", hidden, message)
			}
			if s.called() != "" {
				t.Errorf("called %s", s.called())
			}
		})
	}
}

// A member whose name is escaped or repeated is shown or refused, and never run without having
// been shown.
func TestPlanConfirmationOfOddMembers(t *testing.T) {
	for _, plan := range []string{
		`{"st\u0065ps":[{"id":"w","tool":"put","arguments":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","tool":"put","argum\u0065nts":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","t\u006fol":"put","arguments":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","tool":"put","arguments":{"x":1},"arguments":{"rm":"/"}}]}`,
		`{"steps":[{"id":"w","tool":"put","arguments":{"x":{"y":1,"y":"rm"}}}]}`,
		`{"steps":[{"id":"w","tool":"put","arguments":"{\"x\":1,\"x\":\"rm\"}"}]}`,
		`{"steps":[{"id":"a","tool":"find"},{"id":"w","tool":"put","for_\u0065ach":{"$ref":"a#/no","default":["rm"]},"arguments":{"x":{"$ref":"item#"}}}]}`,
	} {
		p, s, _ := planning(t, handshake, nil)
		message, answer := consent(t, p, "execute_tool_plan", plan, "accept")
		if strings.Contains(s.called(), "rm") && !strings.Contains(message, "rm") {
			t.Errorf("%s: the user read %q, and it called %s", plan, message, s.called())
		}
		if message == "" {
			brokenText(t, answer)
		}
	}
}

// The user reads each of any number of writing steps. A confirmation too long to be read is
// refused without asking.
func TestPlanConfirmationOfManySteps(t *testing.T) {
	for name, test := range map[string]struct {
		steps int
		size  int // characters of an argument
		of    string
		asks  bool
	}{
		"one more than would fit a page": {21, 1, "x", true},
		"many":                           {60, 20, "x", true},
		"many that say much":             {60, 100, "x", false},
		"one that says much":             {1, 6001, "x", false},
		"one of long letters":            {1, 5000, "ü", true},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := planning(t, handshake, nil)
			var steps, want []string
			for i := range test.steps {
				arguments := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat(test.of, test.size))
				steps = append(steps, fmt.Sprintf(`{"id":"w%d","tool":"put","arguments":%s}`, i, arguments))
				want = append(want, fmt.Sprintf("- w%d: put %s\n", i, arguments))
			}
			message, answer := consent(t, p, "execute_tool_plan", `{"steps":[`+strings.Join(steps, ",")+`]}`, "accept")
			if !test.asks {
				if text := brokenText(t, answer); message != "" || !strings.Contains(text, "6000 characters") || s.called() != "" {
					t.Errorf("asked %.100q, got %s, called %.100s", message, text, s.called())
				}
				return
			}
			if all := strings.Join(want, ""); !strings.Contains(message, all) {
				t.Errorf("got %q\nwant %q in it: %.300s", message, all, answer.Raw)
			}
			if n := s.total.Load(); n != int64(test.steps) {
				t.Errorf("%d calls, want %d", n, test.steps)
			}
		})
	}
}

// The confirmation of a named plan shows its parameters, too.
func TestPlanConfirmationShowsParams(t *testing.T) {
	p, _, _ := planning(t, handshake, func(o *proxy.Options) {
		o.Plans.Named = []plan.Named{{
			Name: "tidy", Parameters: []byte(`{"path":{"type":"string"},"deep":{"type":"boolean","default":true}}`),
			Steps: []byte(`[{"id":"w","tool":"put","arguments":{"rm":{"$ref":"params#/path"}}}]`),
		}}
	})
	message, answer := consent(t, p, "plan__tidy", `{"path":  "/\u0065tc\u200b"}`, "decline")
	for _, want := range []string{`"path":"/etc\u{200b}"`, `"deep":true`, `- w: put {"rm":{"$ref":"params#/path"}}` + "\n"} {
		if !strings.Contains(message, want) {
			t.Errorf("got %q, want %q in it: %s", message, want, answer.Raw)
		}
	}
}

// A client whose elicitation capability is not an object cannot ask.
func TestPlanNotConfirmedByNothing(t *testing.T) {
	for _, capabilities := range []string{`{"elicitation":null}`, `{"elicitation":false}`, `{"elicitation":[]}`, `{"elicitation":"no"}`} {
		for _, era := range []string{handshake, stateless} {
			p, s, _ := planning(t, handshake, nil)
			c := attach(t, p, era)
			c.reply(func(method string, _ []byte) []byte {
				t.Errorf("%s, %s: asked %s", capabilities, era, method)
				return []byte(`{"action":"accept","content":{}}`)
			})
			m := c.ableTo(capabilities, "execute_tool_plan", `{"steps":[{"id":"w","tool":"put"}]}`)
			if text := brokenText(t, m); !strings.Contains(text, "cannot be asked") || s.called() != "" {
				t.Errorf("%s, %s: got %s, called %s", capabilities, era, text, s.called())
			}
		}
	}
}

// A server that has replaced the confirmed one is neither written to nor told what was read;
// the same server with a new configuration is.
func TestPlanServerReplacedWhileAsked(t *testing.T) {
	rules := []valuemodel.Rule{reading("one/find", 0), writesAll("one/put"), {
		Pattern: "one/fetch", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Disclosure: valuemodel.ThirdParty},
	}}
	as := func(up proxy.Upstream) proxy.Options {
		o := stored(t, rules, up)
		o.Plans = proxy.Plans{Enabled: true}
		return o
	}
	for what, steps := range map[string]string{
		"put":   `{"id":"w","tool":"put","arguments":{"x":1}}`,
		"fetch": `{"id":"a","tool":"find"},{"id":"w","tool":"fetch","arguments":{"x":{"$ref":"a#/items/0/n"}}}`,
	} {
		for _, era := range []string{handshake, stateless} {
			for _, replaced := range []bool{true, false} {
				t.Run(fmt.Sprint(what, ", ", era, ", replaced ", replaced), func(t *testing.T) {
					a, b := &shop{}, &shop{}
					_, up := remote(t, mcptest.Options{Name: "one", Tools: tools("find", "put", "fetch"), Answer: a.answer})
					next := up
					if replaced {
						_, next = remote(t, mcptest.Options{Name: "one", Tools: tools("find", "put", "fetch"), Answer: b.answer})
					}
					p := start(t, as(up))
					c := attach(t, p, era)
					c.reply(func(string, []byte) []byte {
						p.Apply(as(next))
						return []byte(`{"action":"accept","content":{}}`)
					})
					m := c.ableTo(able, "execute_tool_plan", `{"steps":[`+steps+`]}`)
					got, done := readPlan(t, m), strings.Contains(a.called()+b.called(), what+` {"x":1}`)
					if !replaced && (got.why("w") != "" || !done) {
						t.Errorf("got %s, called %q", m.Raw, a.called())
					}
					if replaced && (!strings.Contains(got.why("w"), "server has been replaced") || done) {
						t.Errorf("got %s, called %q and %q", m.Raw, a.called(), b.called())
					}
				})
			}
		}
	}
}

// If the operator's edge says that a write changes data of another server, a plan reads there
// after the write.
func TestPlanOrdersAlongEdges(t *testing.T) {
	for _, edge := range []bool{true, false} { // without the edge they run in parallel
		bubble.Test(t, func(t *testing.T) {
			write := writesAll("foe/write")
			if edge {
				write.Layer.Invalidates = []valuemodel.Edge{{Tool: "other/get"}}
			}
			o := planned(t, write, reading("other/get", 0))
			up := o.Upstreams[0]
			up.Fingerprint, up.Spec.Name, up.Spec.URL = "other", "other", "http://other.test/mcp"
			up.Model.Name, up.Model.URL = "other", up.Spec.URL
			o.Upstreams = append(o.Upstreams, up)
			other := newFoe(slowly)
			o.Dial = serves(t, other)
			d := beset(t, newFoe(slowly), o)
			a := d.plans(handshake).run(`{"id":"w","tool":"foe__write"},{"id":"r","tool":"other__get"}`)
			if a.states() != "w ok, r ok" {
				t.Fatalf("got %+v", a)
			}
			written, read := d.foe.ledger()[0].went, other.ledger()[0].came
			if after := !read.Before(written); after != edge {
				t.Errorf("edge %v: it was read %v after it was written", edge, read.Sub(written))
			}
		})
	}
}

// Reads that wait for the rate limit of a host do not delay calls of another host's tool,
// although both are tools of one server.
func TestPlanPacedBesideDirectCall(t *testing.T) {
	o := func(t testing.TB) proxy.Options {
		slow := reading("foe/get", 0)
		slow.Layer.Host = "slow.example"
		o := planned(t, slow)
		o.Limits = map[string]limit.Rule{"slow.example": {Rate: 1, Burst: 1}}
		return o
	}
	atOnce := func(v *visit) reply { return reply{result: v.told()} }
	besetEach(t, o, atOnce, func(t *testing.T, d *ordeal, p *planner) {
		var steps, want []string
		for i := range 8 {
			steps = append(steps, fmt.Sprintf(`{"id":"g%d","tool":"get","arguments":{"n":%d}}`, i, i))
			want = append(want, fmt.Sprintf("g%d ok", i))
		}
		paced := p.begin("execute_tool_plan", `{"steps":[`+strings.Join(steps, ",")+`]}`)
		time.Sleep(100 * time.Millisecond)
		direct := p.call("list", `{}`)
		if direct.Error != nil || direct.took != 0 {
			t.Errorf("the call took %v: %s", direct.took, direct.Raw)
		}
		a := paced.wait()
		if got := readPlan(t, a.Message); got.states() != strings.Join(want, ", ") || a.took < 6*time.Second {
			t.Errorf("got %s after %v: nothing was paced", got.states(), a.took)
		}
	})
}

// Switching plans off stops running plans: calls that have not been sent, even if they only
// wait for their host.
func TestPlansSwitchedOffMeanwhile(t *testing.T) {
	for name, limits := range map[string]map[string]limit.Rule{"at once": nil, "paced": {host: {Rate: 0.1, Burst: 1}}} {
		t.Run(name, func(t *testing.T) {
			o := func(t testing.TB) proxy.Options {
				elsewhere := reading("foe/list", 0)
				elsewhere.Layer.Host = "other.example"
				o := planned(t, elsewhere)
				o.Limits = limits
				return o
			}
			besetEach(t, o, slowly, func(t *testing.T, d *ordeal, p *planner) {
				running := p.begin("execute_tool_plan", `{"steps":[{"id":"g","tool":"get"},{"id":"l","tool":"list"},{"id":"w","tool":"write","depends_on":["g","l"]},
					{"id":"v","tool":"write","arguments":{"n":2},"depends_on":["g","l"]}]}`)
				time.Sleep(500 * time.Millisecond)
				if limits != nil {
					time.Sleep(time.Second) // its read has ended
				}
				off := o(t)
				off.Plans.Enabled = false
				d.proxy.Apply(off)
				a := readPlan(t, running.wait().Message)
				if a.Steps[0].Status != "ok" || !strings.Contains(a.why("w")+a.why("v"), "[plan].enabled") {
					t.Errorf("got %+v", a)
				}
				if got := calls(d.foe.ledger()); strings.Contains(got, "write") {
					t.Errorf("got calls %s", got)
				}
			})
		})
	}
}

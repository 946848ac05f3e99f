package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/dashboard"
)

func TestToken(t *testing.T) {
	h, _ := viewed(token)
	cookie := admitted(t, h, token)
	other, _ := viewed("another-token-of-many-letters")
	foreign := admitted(t, other, "another-token-of-many-letters")
	spent := h.Address()
	request(h, "GET", spent)
	for _, c := range []struct {
		name    string
		path    string
		headers []string
		want    int
	}{
		{"nothing", "/dashboard", nil, 401},
		{"nothing, view", "/dashboard/view.json", nil, 401},
		{"bearer", "/dashboard", []string{"Authorization", "Bearer " + token}, 200},
		{"bearer, view", "/dashboard/view.json", []string{"Authorization", "bearer " + token}, 200},
		{"cookie", "/dashboard", []string{"Cookie", cookie}, 200},
		{"cookie, view", "/dashboard/view.json", []string{"Cookie", cookie}, 200},
		{"cookie among others", "/dashboard/view.json", []string{"Cookie", "a=b; " + foreign + "; " + cookie}, 200},
		{"wrong cookie first", "/dashboard/view.json", []string{"Cookie", strings.SplitN(cookie, "=", 2)[0] + "=0; " + cookie}, 200},
		{"a code", h.Address(), nil, 303},
		{"a code that was used", spent, nil, 401},
		{"a code that was used, beside a cookie", spent, []string{"Cookie", cookie}, 303},
		{"a code of another", other.Address(), nil, 401},
		{"a code for the view", "/dashboard/view.json" + strings.TrimPrefix(h.Address(), "/dashboard"), nil, 401},
		{"the token in the address", "/dashboard?token=" + token, nil, 401},
		{"the token as code", "/dashboard?code=" + token, nil, 401},
		{"wrong bearer", "/dashboard/view.json", []string{"Authorization", "Bearer " + token + "x"}, 401},
		{"another authorization beside a cookie", "/dashboard/view.json", []string{"Authorization", "Bearer x", "Cookie", cookie}, 200},
		{"empty bearer", "/dashboard/view.json", []string{"Authorization", "Bearer "}, 401},
		{"basic", "/dashboard/view.json", []string{"Authorization", "Basic " + token}, 401},
		{"another's cookie", "/dashboard/view.json", []string{"Cookie", foreign}, 401},
		{"the token as cookie", "/dashboard/view.json", []string{"Cookie", strings.SplitN(cookie, "=", 2)[0] + "=" + token}, 401},
		{"empty cookie", "/dashboard/view.json", []string{"Cookie", strings.SplitN(cookie, "=", 2)[0] + "="}, 401},
		{"wrong code", "/dashboard?code=wrong", nil, 401},
		{"empty code", "/dashboard?code=", nil, 401},
		{"in the address of the view", "/dashboard/view.json?token=" + token, nil, 401},
		{"elsewhere", "/dashboard/secret", nil, 404},
	} {
		if got := request(h, "GET", c.path, c.headers...); got.Code != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got.Code, c.want)
		} else if got.Code == 401 && strings.Contains(got.Body.String(), "tool_ms_hidden") {
			t.Errorf("%s: got figures without a token", c.name)
		}
	}
}

// admitted returns the cookie that a browser gets for a code.
func admitted(t *testing.T, h *dashboard.Page, token string) string {
	t.Helper()
	address := h.Address()
	got := request(h, "GET", address).Result()
	cookies := got.Cookies()
	if got.StatusCode != 303 || got.Header.Get("Location") != "/dashboard" || len(cookies) != 1 {
		t.Fatalf("got %d to %q with %d cookies, want 303 to /dashboard with one", got.StatusCode, got.Header.Get("Location"), len(cookies))
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/dashboard" || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("got cookie %v, want HttpOnly, SameSite=Strict, only for /dashboard, until the browser is closed", c)
	}
	if strings.Contains(c.String()+address, token) {
		t.Errorf("got cookie %v for address %s with the token in one of them", c, address)
	}
	if got.Header.Get("Referrer-Policy") != "no-referrer" || got.Header.Get("Cache-Control") != "no-store" {
		t.Error("the address with the code may be cached or sent as a referrer")
	}
	return c.Name + "=" + c.Value
}

// Two proxies on ports of one machine share the cookies of a browser, so their cookies have
// different names.
func TestTwoProxiesInOneBrowser(t *testing.T) {
	one, _ := viewed("the-token-of-the-first-proxy")
	two, _ := viewed("the-token-of-the-second-one")
	a, b := httptest.NewServer(one), httptest.NewServer(two)
	defer a.Close()
	defer b.Close()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	for _, address := range []string{a.URL + one.Address(), b.URL + two.Address(), a.URL + "/dashboard/view.json", b.URL + "/dashboard/view.json"} {
		r, err := client.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 200 {
			t.Errorf("%s: got %d, want 200", r.Request.URL.Path, r.StatusCode)
		}
	}
}

func TestDoor(t *testing.T) {
	h, _ := viewed(token)
	got := request(h, "GET", "/dashboard")
	body := got.Body.String()
	if !strings.Contains(body, "mcpschedd dashboard --http") {
		t.Error("the page for a browser without a code does not say where to get one")
	}
	if strings.Contains(body, "<form") {
		t.Error("the page without a code asks for the token")
	}
	if strings.Contains(body, "<script") || strings.Contains(got.Header().Get("Content-Security-Policy"), "script-src") {
		t.Error("the page without a code has a script")
	}
	if body := request(h, "GET", "/dashboard?code=wrong").Body.String(); !strings.Contains(body, "works once") {
		t.Error("the page for a wrong code does not say how long a code is valid")
	}
	if got := request(h, "GET", "/dashboard/view.json").Header().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("got WWW-Authenticate %q", got)
	}
}

// A code is valid once, and for five minutes. At most 16 unused codes are valid.
func TestCodes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, _ := viewed(token)
		opens := func(what, address string, want int) {
			t.Helper()
			if got := request(h, "GET", address).Code; got != want {
				t.Errorf("%s: got %d, want %d", what, got, want)
			}
		}
		once := h.Address()
		if got := request(h, "HEAD", once).Code; got != 401 {
			t.Errorf("a HEAD request: got %d, want 401", got)
		}
		opens("first use", once, 303)
		opens("second use", once, 401)
		early, late := h.Address(), h.Address()
		time.Sleep(5*time.Minute - time.Second)
		opens("before its end", early, 303)
		time.Sleep(time.Second)
		opens("after its end", late, 401)
		var all []string
		for range 20 {
			all = append(all, h.Address())
		}
		for i, address := range all {
			opens(fmt.Sprintf("%d of 20", i+1), address, map[bool]int{true: 303, false: 401}[i >= 4])
		}
	})
}

// A request with the token may get an address with a code. A cookie or an address is not enough.
func TestCodeForTheToken(t *testing.T) {
	h, _ := viewed(token)
	cookie := admitted(t, h, token)
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               int
	}{
		{"nothing", "POST", "/dashboard/code", nil, 401},
		{"wrong token", "POST", "/dashboard/code", []string{"Authorization", "Bearer x"}, 401},
		{"cookie", "POST", "/dashboard/code", []string{"Cookie", cookie}, 401},
		{"code", "POST", "/dashboard/code" + strings.TrimPrefix(h.Address(), "/dashboard"), nil, 401},
		{"GET", "GET", "/dashboard/code", []string{"Authorization", "Bearer " + token}, 405},
		{"token", "POST", "/dashboard/code", []string{"Authorization", "Bearer " + token}, 200},
	} {
		got := request(h, c.method, c.path, c.headers...)
		if got.Code != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got.Code, c.want)
		}
		var in dashboard.Link
		if got.Code != 200 {
			continue
		}
		if err := json.Unmarshal(got.Body.Bytes(), &in); err != nil || strings.Contains(got.Body.String(), token) {
			t.Errorf("got %s (%v), want an address without the token", got.Body, err)
		}
		if got := request(h, "GET", in.Address).Code; got != 303 {
			t.Errorf("its address: got %d, want 303", got)
		}
	}
}

// If no token is required, a code in the address has no effect and is removed from it.
func TestNoTokenAsked(t *testing.T) {
	h, _ := viewed("")
	got := request(h, "GET", "/dashboard?code=anything")
	if got.Code != 303 || len(got.Result().Cookies()) != 0 {
		t.Errorf("got %d with %d cookies, want 303 with none", got.Code, len(got.Result().Cookies()))
	}
}

package dashboard_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	h, _ := viewed(token)
	cookie := admitted(t, h, token)
	other, _ := viewed("another-token-of-many-letters")
	foreign := admitted(t, other, "another-token-of-many-letters")
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
		{"in the address", "/dashboard?token=" + token, nil, 303},
		{"wrong bearer", "/dashboard/view.json", []string{"Authorization", "Bearer " + token + "x"}, 401},
		{"wrong bearer beside a cookie", "/dashboard/view.json", []string{"Authorization", "Bearer x", "Cookie", cookie}, 401},
		{"empty bearer", "/dashboard/view.json", []string{"Authorization", "Bearer "}, 401},
		{"basic", "/dashboard/view.json", []string{"Authorization", "Basic " + token}, 401},
		{"another's cookie", "/dashboard/view.json", []string{"Cookie", foreign}, 401},
		{"the token as cookie", "/dashboard/view.json", []string{"Cookie", strings.SplitN(cookie, "=", 2)[0] + "=" + token}, 401},
		{"empty cookie", "/dashboard/view.json", []string{"Cookie", strings.SplitN(cookie, "=", 2)[0] + "="}, 401},
		{"wrong in the address", "/dashboard?token=wrong", nil, 401},
		{"wrong in the address beside a cookie", "/dashboard?token=wrong", []string{"Cookie", cookie}, 401},
		{"empty in the address", "/dashboard?token=", nil, 401},
		{"in the address of the view", "/dashboard/view.json?token=" + token, nil, 401},
		{"elsewhere", "/dashboard/secret", nil, 404},
	} {
		if got := request(h, "GET", c.path, c.headers...); got.Code != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got.Code, c.want)
		} else if got.Code == 401 && strings.Contains(got.Body.String(), "tool_ms_hidden") {
			t.Errorf("%s: figures without a token", c.name)
		}
	}
}

// admitted is the cookie for who names the token in the address.
func admitted(t *testing.T, h http.Handler, token string) string {
	t.Helper()
	got := request(h, "GET", "/dashboard?token="+token).Result()
	cookies := got.Cookies()
	if got.StatusCode != 303 || got.Header.Get("Location") != "/dashboard" || len(cookies) != 1 {
		t.Fatalf("got %d to %q with %d cookies, want 303 to /dashboard with one", got.StatusCode, got.Header.Get("Location"), len(cookies))
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/dashboard" || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("got cookie %v, want HttpOnly, SameSite=Strict, for /dashboard alone, until the browser is closed", c)
	}
	if strings.Contains(c.String(), token) {
		t.Errorf("got cookie %v with the token in it", c)
	}
	if got.Header.Get("Referrer-Policy") != "no-referrer" || got.Header.Get("Cache-Control") != "no-store" {
		t.Error("the address with the token may be kept or told")
	}
	return c.Name + "=" + c.Value
}

// Two proxies on ports of one machine share a browser's cookies: each has its own.
func TestTwoProxiesInOneBrowser(t *testing.T) {
	one, _ := viewed("the-token-of-the-first-proxy")
	two, _ := viewed("the-token-of-the-second-one")
	a, b := httptest.NewServer(one), httptest.NewServer(two)
	defer a.Close()
	defer b.Close()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	for _, address := range []string{a.URL + "/dashboard?token=the-token-of-the-first-proxy", b.URL + "/dashboard?token=the-token-of-the-second-one", a.URL + "/dashboard/view.json", b.URL + "/dashboard/view.json"} {
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
	if !strings.Contains(body, `name="token" type="password"`) || !strings.Contains(body, "mcpschedd dashboard") {
		t.Error("who has no token is not told where to get one")
	}
	if strings.Contains(body, "<script") || strings.Contains(got.Header().Get("Content-Security-Policy"), "script-src") {
		t.Error("the door has a script")
	}
	if body := request(h, "GET", "/dashboard?token=wrong").Body.String(); !strings.Contains(body, "That is not its token.") {
		t.Error("who has a wrong token is not told so")
	}
	if got := request(h, "GET", "/dashboard/view.json").Header().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("got WWW-Authenticate %q", got)
	}
}

// Where no token is asked for, one in the address does no harm and does not stay there.
func TestNoTokenAsked(t *testing.T) {
	h, _ := viewed("")
	got := request(h, "GET", "/dashboard?token=anything")
	if got.Code != 303 || len(got.Result().Cookies()) != 0 {
		t.Errorf("got %d with %d cookies, want 303 with none", got.Code, len(got.Result().Cookies()))
	}
}

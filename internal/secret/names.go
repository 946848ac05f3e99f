package secret

import (
	"slices"
	"strings"
)

// sure are parts of names that say it by themselves, in the name without what
// stands between its words.
var sure = []struct {
	part string
	kind kind
}{
	{"password", password}, {"passwd", password}, {"passphrase", password}, {"passcode", password}, {"passwort", password}, {"kennwort", password}, {"contrasena", password}, {"motdepasse", password},
	{"apikey", key}, {"privatekey", key}, {"accesskey", key}, {"accountkey", key}, {"secretkey", key}, {"signingkey", key}, {"encryptionkey", key}, {"masterkey", key}, {"authkey", key}, {"appkey", key}, {"servicekey", key}, {"licensekey", key}, {"subscriptionkey", key}, {"sharedkey", key}, {"passkey", key},
	{"secret", secret}, {"mnemonic", secret}, {"seedphrase", secret}, {"recoveryphrase", secret}, {"recoverycode", secret}, {"backupcode", secret}, {"accesscode", secret}, {"securitycode", secret}, {"verificationcode", secret}, {"securejsondata", secret},
	{"credential", credential}, {"authorization", authorization}, {"authorisation", authorization},
}

// naming are words of names that say it.
var naming = map[string]kind{
	"pwd": pwd, "pass": pass, "pw": password, "psw": password, "pswd": password, "pword": password,
	"cred": credential, "creds": credential,
	"token": tokenKind, "tok": tokenKind, "jwt": tokenKind, "bearer": tokenKind, "csrf": tokenKind, "xsrf": tokenKind, "tokens": tokens,
	"auth": authKind, "key": someKey, "keys": bare,
	"cookie": cookie, "cookies": cookie, "sid": session, "session": session, "sessionid": session, "sessid": session,
	"sig": signature, "signature": signature, "hmac": signature,
	"pat": session, "pin": pin, "otp": pin, "totp": pin, "mfa": pin, "cvv": pin, "cvc": pin,
}

// endings are how words end that say it: dbpass, mytoken.
var endings = []struct {
	end    string
	kind   kind
	unless string
}{
	{"token", tokenKind, ""}, {"tokens", tokens, ""}, {"pwd", pwd, ""}, {"sessid", session, ""}, {"sessionid", session, ""},
	{"pass", pass, " bypass compass overpass underpass surpass trespass encompass multipass sshpass "},
}

// about are last words of names whose values tell something of a secret, and are
// none: token_count, secret_name, password_policy.
var about = []string{
	"age", "algorithm", "arn", "at", "budget", "count", "counts", "created", "date", "description", "disabled", "enabled", "env", "error",
	"expiration", "expires", "expiry", "field", "file", "filename", "format", "help", "hint", "id", "ids", "in", "index", "kind", "label",
	"len", "length", "limit", "manager", "max", "message", "min", "name", "names", "path", "placeholder", "policy", "prefix", "provider", "rate", "ref", "required",
	"reset", "scope", "scopes", "size", "status", "store", "strength", "threshold", "through", "time", "timestamp", "title", "ttl", "type", "types", "updated",
	"uri", "url", "usage", "valid", "var", "version",
}

// counted are words beside which a token is one of a text or of a list, and a pass
// one of several.
var counted = []string{
	"bos", "cached", "change", "completion", "continuation", "cursor", "delta", "eos", "first", "input", "last",
	"mask", "max", "min", "next", "num", "output", "pad", "page", "paging", "pagination", "per", "prev", "previous", "progress", "prompt",
	"reasoning", "resume", "second", "skip", "special", "start", "stop", "sync", "total", "unk", "watch",
}

// things are words before which a key is that of a table, of a document, of an
// issue, or one of a keyboard; and what is public anyway.
var things = []string{
	"annotation", "attribute", "blob", "board", "branch", "bucket", "business", "by", "cache", "category", "change", "child", "column", "component", "composite", "config", "context", "continuation",
	"current", "cursor", "data", "dataset", "dedup", "dedupe", "deduplication", "dict", "doc", "document", "entity", "entry", "epic", "event", "exclusive", "extra",
	"feature", "field", "file", "filter", "first", "flag", "foreign", "group", "grouping", "hash", "hot", "idempotency", "index", "input", "issue",
	"item", "job", "join", "json", "label", "language", "last", "link", "locale", "localization", "lookup", "map", "marker", "menu", "merge", "message", "metadata", "metric", "model",
	"modifier", "namespace", "natural", "new", "next", "node", "object", "old", "option", "or", "order", "output", "page", "param", "parameter", "parent",
	"partition", "path", "press", "pressed", "prev", "previous", "primary", "process", "product", "project", "property", "public", "publishable", "query", "range",
	"record", "ref", "resource", "response", "result", "row", "rule", "search", "section", "segment", "series", "setting", "shard", "shortcut", "sort", "space",
	"sprint", "start", "story", "style", "subtask", "submit", "sync", "tag", "target", "task", "template", "theme", "ticket", "translation", "trigger", "type", "unique",
	"variable", "variant", "version", "view", "widget", "workflow",
}

const longestName = 64 // bytes of a name that are looked at: the last ones

// classify says what a name says of its value.
func classify(name string) kind {
	if strings.Contains(name, markBegin) {
		return plain // it is what was secret
	}
	var few [8]string
	all := words(few[:0], name)
	if n := len(all); n > 1 && slices.Contains(about, all[n-1]) {
		return plain
	}
	return kindOf(all)
}

// phrase says the same of a description, such as "Password field": it may end in
// any word.
func phrase(text string) kind {
	var few [8]string
	return kindOf(words(few[:0], text))
}

// tells reports whether a name is that of something told of a secret.
func tells(name string) bool {
	var few [8]string
	all := words(few[:0], name)
	return len(all) > 0 && slices.Contains(about, all[len(all)-1])
}

func kindOf(words []string) kind {
	joined := strings.Join(words, "")
	for _, s := range sure {
		if strings.Contains(joined, s.part) {
			return s.kind
		}
	}
	for i, w := range slices.Backward(words) {
		if k := wordKind(w); k != plain {
			return k.beside(words[:i], words[i+1:])
		}
	}
	return plain
}

func wordKind(w string) kind {
	if k := naming[w]; k != plain {
		return k
	}
	for _, e := range endings {
		if strings.HasSuffix(w, e.end) && !strings.Contains(e.unless, " "+w+" ") {
			return e.kind
		}
	}
	return plain
}

// beside says what a word of kind k means between others.
func (k kind) beside(before, behind []string) kind {
	last, next := "", ""
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	if len(behind) > 0 {
		next = behind[0]
	}
	switch {
	case k == session && next != "":
		return plain
	case k == someKey && last == "":
		return bare
	case k == someKey || k == bare:
		if slices.Contains(things, last) {
			return plain
		}
	case slices.Contains(counted, last) || slices.Contains(counted, next):
		return plain
	}
	return k
}

// words splits a name, be it written like_this, like-this, likeThis or LikeTHIS2,
// into words in small letters. Of a long one only the end is looked at.
func words(dst []string, name string) []string {
	name = name[max(0, len(name)-longestName):]
	from := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && letter(name[i]) && !(i > from && hump(name, i)) {
			continue
		}
		if i > from {
			dst = append(dst, strings.ToLower(name[from:i]))
		}
		from = i
		if i < len(name) && !letter(name[i]) {
			from++
		}
	}
	return dst
}

func letter(c byte) bool  { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func capital(c byte) bool { return c >= 'A' && c <= 'Z' }
func small(c byte) bool   { return c >= 'a' && c <= 'z' }
func hump(s string, i int) bool { // reports whether a new word begins at the letter s[i]
	return capital(s[i]) && (small(s[i-1]) || i+1 < len(s) && small(s[i+1]))
}

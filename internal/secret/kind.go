package secret

import "strings"

// kind is what a name says of its value.
type kind uint8

const (
	plain kind = iota // nothing
	password
	pwd  // a password, or the working directory
	pass // a password, or what tests do
	secret
	key
	credential
	authorization
	authKind // credentials, or the way in which they are given
	tokenKind
	tokens // tokens, or how many
	someKey
	userPassword // a user and, behind a colon, a password
	said         // a secret that nothing but a space parts from its name
	cookie
	pin
	signature
	session
	bare // "key" alone, which mostly means something else
)

// kinds say what the values of each kind look like. What is sure is a secret
// whatever it looks like. What is loud is one as well where it stands by itself: as
// a member, a parameter, an option, in quotes; but programs and sentences use the
// same word for other things, so that there it has to look like a secret. That is
// what all the others have to do everywhere.
var kinds = [...]struct {
	rule       string
	sure, loud bool
}{
	password:      {rule: "password", sure: true},
	pwd:           {rule: "password", sure: true},
	pass:          {rule: "password", loud: true},
	secret:        {rule: "secret", sure: true},
	key:           {rule: "key", sure: true},
	credential:    {rule: "credential", sure: true},
	authorization: {rule: "authorization", sure: true},
	authKind:      {rule: "authorization", loud: true},
	tokenKind:     {rule: "token", loud: true},
	tokens:        {rule: "token", loud: true},
	someKey:       {rule: "key", loud: true},
	userPassword:  {rule: "password"},
	said:          {rule: "secret"},
	cookie:        {rule: "cookie"},
	pin:           {rule: "pin"},
	signature:     {rule: "signature"},
	session:       {rule: "session"},
	bare:          {rule: "key"},
}

// strong reports whether what stands under a name of kind k is a secret in itself,
// so that nothing of it may stay.
func (k kind) strong() bool { return kinds[k].sure || kinds[k].loud }

// number reports whether a number of so many digits is a secret if a name of kind k
// stands before it: a count of tokens is none, nor is a pin of a circuit.
func (k kind) number(digits int) bool {
	return k.strong() && k != tokens && k != authKind || k == pin && digits >= leastPin
}

// value reports whether a text is a secret if a name of kind k stands before it.
func (k kind) value(s string) bool {
	switch {
	case s == "" || hollow(s):
		return false
	case k == pwd && (s[0] == '/' || len(s) > 2 && s[1] == ':' && s[2] == '\\'):
		return false
	case kinds[k].sure:
		return true
	case kinds[k].loud:
		return k.loud(s)
	}
	switch k {
	case pin:
		return len(s) >= leastPin && len(s) <= 12 && strings.Trim(s, digits) == ""
	case cookie:
		return strings.Contains(s, "=") || likely(s)
	case bare:
		return likely(s) && mixed(s) && !strings.ContainsAny(s, "/:.,") && !numbered(s) && !uuid(s)
	case userPassword:
		s, _, _ = strings.Cut(s, markBegin) // its colon parts nothing
		_, word, _ := strings.Cut(s, ":")
		return word != "" && !strings.HasPrefix(word, "//") && !hollow(word) && strings.Trim(s, digits+":") != ""
	}
	return likely(s)
}

// loud reports the same of what says it of any value that is no sentence, no word
// for a value, and for tokens no number.
func (k kind) loud(s string) bool {
	switch {
	case strings.Count(s, " ") > mostWords-1 || strings.ContainsAny(s, "\r\n\t"):
		return false
	case among(types, s):
		return false
	case k == tokens:
		return strings.Trim(s, digits+".,-") != ""
	case k == authKind:
		return !among(ways, s)
	}
	return true
}

const (
	digits    = "0123456789"
	mostWords = 3 // of a token: with the name of its scheme, and something between

	leastLikely = 8
	leastPin    = 3
	surelyLong  = 20
)

// types are what a program or a schema says of a value instead of it.
const types = " string str bool boolean int integer number float any null nil none undefined true false required optional missing invalid text bytes void "

// ways are those in which a program may ask for credentials.
const ways = " basic bearer digest ntlm negotiate kerberos oauth oauth2 oidc saml sso jwt token apikey api_key password key cookie login anonymous ok yes no on off auto default disabled enabled "

const longestWord = 16 // bytes of a word in a list

// among reports whether a text is one of the words of a list, in whatever case.
func among(list, s string) bool {
	return len(s) <= longestWord && strings.Contains(list, " "+strings.ToLower(s)+" ")
}

// likely reports whether a text may be a token: one word, long, or with digits
// among its letters.
func likely(s string) bool {
	if len(s) < leastLikely || strings.ContainsAny(s, " \t\r\n") {
		return false
	}
	return mixed(s) || len(s) >= surelyLong
}

// mixed reports whether a text has digits and letters.
func mixed(s string) bool {
	return strings.ContainsAny(s, digits) && strings.ContainsFunc(s, func(r rune) bool { return r < 0x80 && letter(byte(r)) })
}

// numbered reports whether a text is the key of an issue: PROJ-1234.
func numbered(s string) bool {
	name, number, found := strings.Cut(s, "-")
	return found && number != "" && strings.Trim(number, digits) == "" && name != "" && strings.Trim(name, variable) == ""
}

// uuid reports whether a text is written as one.
func uuid(s string) bool {
	return len(s) == 36 && strings.Count(s, "-") == 4 && strings.Trim(s, "0123456789abcdefABCDEF-") == ""
}

// hollow reports whether a text stands in for a secret that is not there, or names
// where it is: ****, ${TOKEN}, $TOKEN, <token>, {{ token }}, %TOKEN%.
func hollow(s string) bool {
	last := s[len(s)-1]
	switch s[0] {
	case '$':
		return strings.HasPrefix(s, "${") || strings.HasPrefix(s, "$(") || len(s) > 1 && strings.Trim(s[1:], variable) == ""
	case '<':
		return last == '>'
	case '{':
		return strings.HasPrefix(s, "{{")
	case '%':
		return len(s) == 2 || len(s) > 2 && last == '%' && strings.Trim(s[1:len(s)-1], variable) == ""
	}
	return strings.Trim(s, "*•x.") == ""
}

const variable = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

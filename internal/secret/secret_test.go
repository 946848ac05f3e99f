package secret_test

import (
	"encoding/base64"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"mcpschedd/internal/secret"
)

func enc(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestText(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "a quick brown fox", ""},
		{"a token in a sentence", "use " + github(1) + ", please", "use [secret: github-token], please"},
		{"two of them", github(1) + " " + github(2), "[secret: github-token] [secret: github-token]"},
		{"a token that may have dots at the end of a sentence", "it is pat" + strings.Repeat("aB3dE6g", 2) + "." + strings.Repeat("0e1f2a3b", 8) + ". Well", "it is [secret: airtable-token] Well"},
		{"a token at the end of a sentence", "it is " + github(3) + ".", "it is [secret: github-token]."},
		{"a token goes on in other letters", "x" + github(1), ""},
		{"a private key", "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[secret: private-key]\nb"},
		{"a private key that was cut", "a -----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nAAAA", "a [secret: private-key]"},
		{"a private key in a quoted text", `{"k":"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"}`, `{"k":"[secret: private-key]\n"}`},
		{"a certificate is public", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", ""},
		{"a JSON Web Token", "t " + jwt(1) + " u", "t [secret: jwt] u"},
		{"one part of it is none", "cursor eyJpZCI6MTIzNDU2Nzg5MH0", ""},

		{"a password in a URL", "postgres://bob:p@ss@db.example:5432/x", "postgres://bob:[secret: url-password]@db.example:5432/x"},
		{"no user", "redis://:hunter2@cache:6379", "redis://:[secret: url-password]@cache:6379"},
		{"a token for a user", "https://" + github(1) + "@github.com/a/b", "https://[secret: github-token]@github.com/a/b"},
		{"a token for a user, and a password", "https://" + github(1) + ":x-oauth-basic@github.com", "https://[secret: github-token]:[secret: url-password]@github.com"},
		{"a user", "ssh://git@github.com/a/b", ""},
		{"a port", "http://127.0.0.1:8080/a@b", ""},
		{"a query", "https://h/?page=2&access_token=abc123def456&x=1", "https://h/?page=2&access_token=[secret: token]&x=1"},
		{"a signed URL", "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7", "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature=[secret: signature]"},

		{"a header", "Authorization: Bearer abc123def456\nAccept: */*", "Authorization: [secret: authorization]\nAccept: */*"},
		{"a header of another kind", "X-Api-Key: q1w2e3r4", "X-Api-Key: [secret: key]"},
		{"a cookie", "Cookie: sid=abc; theme=dark\n", "Cookie: [secret: cookie]\n"},
		{"a cookie to eat", "cookie: chocolate", ""},
		{"only the scheme's credentials", "sent Bearer abc123def456 to it", "sent Bearer [secret: bearer] to it"},
		{"bearer of news", "the bearer authentication scheme", ""},
		{"basic credentials", "Basic Ym9iOmh1bnRlcjI=", "Basic [secret: basic]"},
		{"basic knowledge", "Basic understanding of Go", ""},
		{"curl", "curl -H 'Authorization: Basic Ym9iOmh1bnRlcjI=' https://h/", "curl -H 'Authorization: [secret: authorization]' https://h/"},

		{"an environment", "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz A=1", "export AWS_SECRET_ACCESS_KEY=[secret: key] A=1"},
		{"its file", "DB_PASSWORD=hunter\nDEBUG=1", "DB_PASSWORD=[secret: password]\nDEBUG=1"},
		{"a connection string", "Server=db;User Id=sa;Password=s3cr3t!;Encrypt=True", "Server=db;User Id=sa;Password=[secret: password];Encrypt=True"},
		{"an account key", "AccountName=x;AccountKey=abc/def+ghi==;EndpointSuffix=core", "AccountName=x;AccountKey=[secret: key];EndpointSuffix=core"},
		{"an option", "mysql --password hunter2 --user bob", "mysql --password [secret: password] --user bob"},
		{"an option without a value", "x --password --user bob", ""},
		{"YAML", "user: bob\npassword: hunter\nport: 1", "user: bob\npassword: [secret: password]\nport: 1"},
		{"a sentence", "password: the word that you chose", ""},
		{"JSON in a text", `see {"user":"bob","password":"hunter two","n":1}`, `see {"user":"bob","password":"[secret: password]","n":1}`},
		{"JSON in a quoted text", `"{\"client_secret\":\"a \\\"b\\\" c\",\"n\":1}"`, `"{\"client_secret\":\"[secret: secret]\",\"n\":1}"`},
		{"XML", "<user>bob</user><password>hunter two</password>", "<user>bob</user><password>[secret: password]</password>"},
		{"a name behind a bracket", `data["password"] = "hunter"`, `data["password"] = "[secret: password]"`},
		{"a hash", `'password' => 'hunter', :api_key=>"k1", "token"  =>  'abc'`, `'password' => '[secret: password]', :api_key=>"[secret: key]", "token"  =>  '[secret: token]'`},
		{"a function", "tokens.filter(token => token2 !== x), secret => secret,", ""},
		{"SQL", `CREATE USER a WITH PASSWORD 'hunter'; ALTER USER b IDENTIFIED BY "two words"`, `CREATE USER a WITH PASSWORD '[secret: password]'; ALTER USER b IDENTIFIED BY "[secret: password]"`},
		{"an empty value", `password="" secret='' token=`, ""},
		{"what stands in for a value", "password=${DB_PASSWORD} secret=$SECRET token=<token> api_key={{key}} passwd=****", ""},
		{"a percent sign alone", "pass=% token: %d\npassword=%a", "pass=[secret: password] token: %d\npassword=%a"},
		{"a dollar sign begins it", "password=$ecret12", "password=[secret: password]"},
		{"a program", "password = getPassword(); token := os.Getenv(\"TOKEN\"); var apiKey: string = config.apiKey\n", ""},
		{"a schema", "password: string, // required\ntoken: str", ""},
		{"nothing where a password was", "password: None\n\"password\": true,\nsecret: required", ""},
		{"a member of the same name", "connect(api_key=args.api_key, password=self.password)\nsecret = app.secret", ""},
		{"an option with a URL", "scan -u https://h/ -u http://h:80/", ""},
		{"what is told of a secret", "token_type=Bearer12345 max_tokens=123456789 password_policy=strong12 secret_name=prod-db-1 key_id=abcdefgh12345678", ""},
		{"a page's token", "next_page_token=abcdefgh12345678", ""},

		{"tokens of any length", "https://h/?token=hunter2&access_token=abc&x=1", "https://h/?token=[secret: token]&access_token=[secret: token]&x=1"},
		{"a header of any length", "curl -H 'X-Token: abc' h", "curl -H 'X-Token: [secret: token]' h"},
		{"a scheme and a word", "Authorization: token abc", "Authorization: [secret: authorization]"},
		{"a user's password", "curl -u bob:pw1 --proxy-user=bob:pw2 -ubob:pw3 -u 'bob:p w4' h", "curl -u bob:[secret: password] --proxy-user=bob:[secret: password] -ubob:[secret: password] -u 'bob:[secret: password]' h"},
		{"a user, and a group", "docker run -u 1000:1000 img; python -u app.py", ""},
		{"a password joined to its option", "docker exec db mysql -uroot -phunter22 x", "docker exec db mysql -uroot -p[secret: password] x"},
		{"a database behind an option", "mysql -u root -p mydb", ""},
		{"a program's option", "sshpass -p 'hunter 22' ssh -p 22 h; mkdir -p a", "sshpass -p '[secret: password]' ssh -p 22 h; mkdir -p a"},
		{"an option with one dash", "keytool -storepass changeit", "keytool -storepass [secret: password]"},
		{"a name with nothing but a space", "aws configure set aws_secret_access_key wJalrXUtnFEMI/K7MDENG", "aws configure set aws_secret_access_key [secret: secret]"},
		{"a program's tokens", "token = tokens[0]; f(token=token); lexer.token = next;\n\tsessionDir := path.Join(a)", ""},
		{"tests pass", "Verify that tests pass: `go test ./cmd -run X`", ""},
		{"a token encoded once more", enc(jwt(1)) + " x", "[secret: jwt] x"},
		{"a cursor encoded once more", enc(enc(`{"id":1234567890,"after":"abcdef"}`)), ""},
		{"a quoted ; parts no command", `mysql --password="a;b" -phunter2`, `mysql --password="[secret: password]" -p[secret: password]`},

		{"a working directory", `PWD=/home/bob/src "PWD="+dir {"pwd":"C:\\x"}`, ""},
		{"a form", "curl -d 'user[password]=hunter2&user[name]=bob'", "curl -d 'user[password]=[secret: password]&user[name]=bob'"},
		{"forms without a quote", "curl -d user[password]=hunter2 h; curl -d user[token]=abc1&x=1\nuser[password]=hunter2", "curl -d user[password]=[secret: password] h; curl -d user[token]=[secret: token]&x=1\nuser[password]=[secret: password]"},
		{"in brackets", "[password=hunter2 user=bob] [token=abc1]", "[password=[secret: password] user=bob] [token=[secret: token]]"},
		{"slashes begin it", "DB_PASSWORD=//x1y2z3", "DB_PASSWORD=[secret: password]"},
		{"a comment, a scope, a parameter", "\"password\": //comment1\nsecret://x1y2z3 Auth::token: abc1 UPDATE u SET password=:pass1, token = :t1", ""},
		{"symbols of Ruby", ":password: hunter2\n  :api_key: abc1", ":password: [secret: password]\n  :api_key: [secret: key]"},
		{"pictures", ":key: Ab3dEf6hIj9kLm2nOp5qR :secret: word12 :cookie: a=b1 :old_key: abc123", ""},
		{"a program's index", "m[token] = next1; cache[password] = hash1; a[secret] == b1; s[key.Pos:key.End1]", ""},
		{"an index without blanks", "d[password]=form.pw1, params[token]=req.token2; m[key.Pos]=x1, f(opts[auth]=cfg.auth2)", ""},
		{"a letter that is not in ASCII", "contraseña=hunter2 --contraseña hunter3\ncontraseña: hunter4", "contraseña=[secret: password] --contraseña [secret: password]\ncontraseña: [secret: password]"},
		{"a mark stays", "password=[secret: password] [secret: github-token]", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.in
			}
			if got := secret.Text(tt.in); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// The work is linear in a text, of which a server may send any length.
func TestTextWithManySecrets(t *testing.T) {
	const n = 5000
	text := strings.Repeat("password=hunter2 ", n)
	allocated := func(f func()) int {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc)
	}
	var got string
	found := allocated(func() { secret.In(text) }) // the race detector makes regular expressions allocate more
	if used := allocated(func() { got = secret.Text(text) }) - found; used > 500*len(text) {
		t.Errorf("got %d bytes allocated to replace the secrets of a text of %d", used, len(text))
	}
	if want := strings.Repeat("password=[secret: password] ", n); got != want {
		t.Errorf("got %.100s, want %.100s", got, want)
	}
}

// A long value is masked to the end of its line, or to the next quote.
func TestLongSecrets(t *testing.T) {
	for _, length := range []int{4000, 4096, 5000, 50_000} {
		long := strings.Repeat("x1é", length/4)
		for _, around := range []string{"Cookie: %\nb", "a=1 password=%\nb", `{"password":"%","b":"c"}`, "<password>%</password>", "api_key: '%' b", "password=%"} {
			want := regexp.MustCompile(`%`).ReplaceAllString(around, "[secret: ]")
			got := secret.Text(strings.Replace(around, "%", long, 1))
			if got = regexp.MustCompile(`secret: [a-z]+`).ReplaceAllString(got, "secret: "); got != want {
				t.Errorf("%s, %d bytes: got %d bytes, %.100q", around, length, len(got), got)
			}
		}
		whole := "TOKEN=" + strings.Repeat("x1 \n", length/4)
		if got := secret.Find(whole, ""); len(got) != 1 || got[0].To != len(whole) {
			t.Errorf("an argument of %d bytes: got %v", length, got)
		}
	}
}

func TestJSON(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", ` {"a" : [1, "b", null], "c":{}} `, ""},
		{"by its name", `{"user":"bob","password":"hunter2"}`, `{"user":"bob","password":"[secret: password]"}`},
		{"at any depth", `[{"a":[{"apiKey":"x y","b":1}]}]`, `[{"a":[{"apiKey":"[secret: key]","b":1}]}]`},
		{"by its shape", `{"a":"` + github(1) + `"}`, `{"a":"[secret: github-token]"}`},
		{"in a name", `{"` + github(1) + `":1}`, `{"[secret: github-token]":1}`},
		{"a name with escapes", `{"pass\u0077ord":"hunter2"}`, `{"pass\u0077ord":"[secret: password]"}`},
		{"a value with escapes", `{"a":"\u0041KIA` + strings.Repeat("Q2", 8) + `"}`, `{"a":"[secret: aws-key]"}`},
		{"a number", `{"pin":1234,"password":-1.5e3,"token":1234,"tokens":12,"n":1234,"authorization":12345678,"cookies":12}`, `{"pin":"[secret: pin]","password":"[secret: password]","token":"[secret: token]","tokens":12,"n":1234,"authorization":"[secret: authorization]","cookies":12}`},
		{"neither true nor nothing", `{"password":true,"secret":null,"token":""}`, ""},
		{"a list", `{"passwords":["a","b",["c"]]}`, `{"passwords":["[secret: password]","[secret: password]",["[secret: password]"]]}`},
		{"an object", `{"credentials":{"user":"bob","x":"abcd1234"}}`, `{"credentials":{"user":"bob","x":"[secret: credential]"}}`},
		{"named beside it", `{"fields":[{"name":"Password","type":"textbox","value":"hunter2"},{"name":"User","value":"bob"}]}`, `{"fields":[{"name":"Password","type":"textbox","value":"[secret: password]"},{"name":"User","value":"bob"}]}`},
		{"named behind it", `{"value":"hunter2","name":"DB_PASSWORD"}`, `{"value":"[secret: password]","name":"DB_PASSWORD"}`},
		{"described beside it", `{"element":"Password input field","ref":"e12","text":"hunter2"}`, `{"element":"Password input field","ref":"e12","text":"[secret: password]"}`},
		{"an option before it", `{"args":["-v","--password","hunter2","--user","bob"]}`, `{"args":["-v","--password","[secret: password]","--user","bob"]}`},
		{"an option before what begins like something else", `["--password","-abc-def","--api-key","{abc12}","--pin",1234]`, `["--password","[secret: password]","--api-key","[secret: key]","--pin","[secret: pin]"]`},
		{"an option that is a header", `["curl","--cookie","a=b1","--authorization","x y","-v","-u","bob:pw"]`, `["curl","--cookie","[secret: cookie]","--authorization","[secret: authorization]","-v","-u","bob:[secret: password]"]`},
		{"options without a value", `["--password","--user","bob","--token","-v","--auth","basic"]`, ""},
		{"a command", `{"command":"PGPASSWORD=hunter2 psql -c 'select 1'"}`, `{"command":"PGPASSWORD=[secret: password] psql -c 'select 1'"}`},
		{"pages and counts", `{"page_token":"abcdefgh12345678","max_tokens":"4096","total_tokens":1234567,"primary_key":"abcdefghij0123456789x"}`, ""},
		{"a token of any length", `{"token":"hunter2"}`, `{"token":"[secret: token]"}`},
		{"an object of credentials", `{"auth":{"user":"bob","pass":"s3cr"}}`, `{"auth":{"user":"bob","pass":"[secret: password]"}}`},
		{"a pair of credentials", `{"auth":["bob","hunter2"],"b":{"auth":"basic"}}`, `{"auth":["[secret: authorization]","[secret: authorization]"],"b":{"auth":"basic"}}`},
		{"options of one letter", `[["curl","-u","bob:pw"],["mysql","-phunter2"],["sshpass","-p","pw"],["mkdir","-p","pw"]]`, `[["curl","-u","bob:[secret: password]"],["mysql","-p[secret: password]"],["sshpass","-p","[secret: password]"],["mkdir","-p","pw"]]`},
		{"an option in a list with a secret's name", `{"session":["-x","abcd1234"],"tokens":["--max-tokens","abcd1234"]}`, `{"session":["-x","[secret: session]"],"tokens":["--max-tokens","abcd1234"]}`},
		{"the lines of a private key", `["a","-----BEGIN RSA PRIVATE KEY-----","MIIEowIBAAKCAQEA","Zm9v","-----END RSA PRIVATE KEY-----","Zm9v"]`, `["a","[secret: private-key]","[secret: private-key]","[secret: private-key]","[secret: private-key]","Zm9v"]`},
		{"the lines of a private key that was cut", `["-----BEGIN RSA PRIVATE KEY-----","MIIEowIBAAKCAQEA",7,"Zm9v"]`, `["[secret: private-key]","[secret: private-key]",7,"Zm9v"]`},
		{"a token for a user, and its password", `["-u","` + github(1) + `:pw"]`, `["-u","[secret: github-token]:[secret: password]"]`},
		{"a sentence with a secret, named", `{"value":"to say Authorization: x1 = ","name":"dbpass"}`, `{"value":"[secret: password]","name":"dbpass"}`},
		{"the same without an id", `["wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ2k9LmPq"]`, ""},
		{"a mark stays", `{"password":"[secret: password]","a":"[secret: jwt]"}`, ""},
		{"the bytes around it", "{\n \"password\" :\t\"x1\" , \"n\":1e2}\n", "{\n \"password\" :\t\"[secret: password]\" , \"n\":1e2}\n"},
		{"no JSON", `{"password":"hunter2"`, `"{\"password\":\"[secret: password]\""`},
		{"no UTF-8", "\"\xff\"", `"\"` + "\ufffd" + `\""`},
		{"empty", "", `""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.in
			}
			if got := string(secret.JSON([]byte(tt.in))); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestJSONIsTheSameSliceIfNothingIsFound(t *testing.T) {
	in := []byte(`{"a":"b"}`)
	if out := secret.JSON(in); &out[0] != &in[0] {
		t.Error("got a copy, want the same slice")
	}
}

func TestDeepJSON(t *testing.T) {
	const depth = 9000
	in := strings.Repeat(`{"a":[`, depth/2) + `{"password":"x1"}` + strings.Repeat(`]}`, depth/2)
	want := strings.Replace(in, "x1", "[secret: password]", 1)
	if got := string(secret.JSON([]byte(in))); got != want {
		t.Errorf("got %.40q… of %d bytes, want %d", got, len(got), len(want))
	}
}

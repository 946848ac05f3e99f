package plan_test

import (
	"testing"

	"mcpschedd/internal/schema"
)

func TestCoerce(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type":"object","properties":{
		"text":{"type":"string"},"number":{"type":"number"},"whole":{"type":"integer"},"yes":{"type":"boolean"},
		"object":{"type":"object","properties":{"text":{"type":"string"}}},
		"texts":{"type":"array","items":{"type":"string"}},"wholes":{"type":"array","items":{"type":"integer"}},
		"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"},{"type":"boolean"}]},
		"texts or null":{"type":["array","null"],"items":{"type":"string"}},
		"text or number":{"type":["string","number"]},"text or whole":{"type":["string","integer"]},"text or object":{"type":["string","object"]},
		"text or null":{"anyOf":[{"type":"string"},{"type":"null"}]},"number or yes":{"type":["number","boolean"]},
		"choice":{"enum":["1","2"]},"any":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	look := results{
		"v":        {JSON: []byte(`{"n": 42, "big": 9007199254740993, "huge": 1e400, "dot": 1.0, "half": 2.50, "b": true, "null": null, "o": { "x": [1, 2] }, "l": [1, "a", null, 2.5], "s": "text", "42": "42", "1e3": "1e3", "2.5": "2.5", "007": "007", "+5": "+5", "NaN": "NaN", "sp": " 42", "true": "true", "True": "True", "empty": "", "obj": "{\"a\":1}"}`)},
		"n":        {JSON: []byte(`42`), Text: `42`},
		"padded":   {JSON: []byte(`42`), Text: "42\n"},
		"o":        {JSON: []byte(`{"a": [1,  2]}`), Text: "{\"a\": [1,  2]}\n"},
		"quoted":   {JSON: []byte(`"hi"`), Text: `"hi"`},
		"null":     {JSON: []byte(`null`), Text: `null`},
		"plain":    {JSON: []byte(`"hi there"`)},
		"stripped": {JSON: []byte(`{"a": [1,  2]}`)},
	}
	for _, c := range []struct{ name, raw, want string }{
		{"number to text", `{"text":"$ref:v.n"}`, `{"text":"42"}`},
		{"with its digits", `["$ref:v.big"]`, `[9007199254740993]`},
		{"with its digits, as text", `{"text":"$ref:v.big"}`, `{"text":"9007199254740993"}`},
		{"with its zeros", `{"text":"$ref:v.half"}`, `{"text":"2.50"}`},
		{"out of all proportion", `{"text":"$ref:v.huge","number":"$ref:v.huge"}`, `{"text":"1e400","number":1e400}`},
		{"boolean to text", `{"text":"$ref:v.b"}`, `{"text":"true"}`},
		{"object to text", `{"text":"$ref:v.o"}`, `{"text":"{\"x\":[1,2]}"}`},
		{"array to text", `{"text":"$ref:v.l"}`, `{"text":"[1,\"a\",null,2.5]"}`},
		{"a whole object to text", `{"text":"$ref:stripped"}`, `{"text":"{\"a\":[1,2]}"}`},
		{"null stays", `{"text":"$ref:v.null","whole":"$ref:v.gone"}`, `{"text":null,"whole":null}`},

		{"text to number", `{"number":"$ref:v.42","whole":"$ref:v.42"}`, `{"number":42,"whole":42}`},
		{"text to a fraction", `{"number":"$ref:v.2\u002e5"}`, `{"number":null}`}, // short references cannot name a member with a dot
		{"text to a fraction by pointer", `{"number":{"$ref":"v#/2.5"},"whole":{"$ref":"v#/2.5"}}`, `{"number":2.5,"whole":"2.5"}`},
		{"text to a power", `{"whole":"$ref:v.1e3"}`, `{"whole":1e3}`},
		{"text that is no JSON number", `{"whole":"$ref:v.007","number":"$ref:v.NaN"}`, `{"whole":"007","number":"NaN"}`},
		{"nor with a sign", `{"whole":"$ref:v.+5","number":"$ref:v.sp"}`, `{"whole":"+5","number":" 42"}`},
		{"text to boolean", `{"yes":"$ref:v.true"}`, `{"yes":true}`},
		{"other text to boolean", `{"yes":"$ref:v.True"}`, `{"yes":"True"}`},
		{"number to boolean", `{"yes":"$ref:v.n"}`, `{"yes":42}`},
		{"boolean to number", `{"number":"$ref:v.b"}`, `{"number":true}`},
		{"text to object", `{"object":"$ref:v.obj"}`, `{"object":"{\"a\":1}"}`},
		{"no text", `{"number":"$ref:v.empty","yes":"$ref:v.empty"}`, `{"number":"","yes":""}`},
		{"a whole number that is written as a fraction", `{"whole":"$ref:v.dot"}`, `{"whole":1.0}`},
		{"a fraction", `{"whole":"$ref:v.half"}`, `{"whole":2.50}`},

		{"either", `{"text or number":"$ref:v.n"}`, `{"text or number":42}`},
		{"either, as text", `{"text or number":"$ref:v.42"}`, `{"text or number":"42"}`},
		{"either, but a fraction", `{"text or whole":"$ref:v.half"}`, `{"text or whole":"2.50"}`},
		{"either, a whole one", `{"text or whole":"$ref:v.dot"}`, `{"text or whole":1.0}`},
		{"or null", `{"text or null":"$ref:v.n"}`, `{"text or null":"42"}`},
		{"number or boolean", `{"number or yes":["$ref:v.true"]}`, `{"number or yes":["true"]}`},
		{"number or boolean of text", `{"number or yes":"$ref:v.true"}`, `{"number or yes":true}`},
		{"a list of texts", `{"choice":"$ref:v.n"}`, `{"choice":"42"}`},
		{"anything", `{"any":"$ref:v.n","unknown":"$ref:v.42"}`, `{"any":42,"unknown":"42"}`},

		{"elements", `{"texts":"$ref:v.l"}`, `{"texts":["1","a",null,"2.5"]}`},
		{"elements of which may be none", `{"texts or null":"$ref:v.l"}`, `{"texts or null":["1","a",null,"2.5"]}`},
		{"an element", `{"texts":["$ref:v.n", 7]}`, `{"texts":["42",7]}`},
		{"elements by place", `{"pair":["$ref:v.n", "$ref:v.42"]}`, `{"pair":["42",42]}`},
		{"an element behind constants", `{"pair":["a", "$ref:v.42", 1]}`, `{"pair":["a",42,1]}`},
		{"an element behind several", `{"pair":["a", 1, "$ref:v.true"]}`, `{"pair":["a",1,true]}`},
		{"within", `{"object":{"text":"$ref:v.n"}}`, `{"object":{"text":"42"}}`},
		{"within what goes in as a whole", `{"object":{"$ref":"v#"}}`, `{"object":` + `{"n":42,"big":9007199254740993,"huge":1e400,"dot":1.0,"half":2.50,"b":true,"null":null,"o":{"x":[1,2]},"l":[1,"a",null,2.5],"s":"text","42":"42","1e3":"1e3","2.5":"2.5","007":"007","+5":"+5","NaN":"NaN","sp":" 42","true":"true","True":"True","empty":"","obj":"{\"a\":1}"}` + `}`},

		{"read as JSON, wanted as text", `{"text":"$ref:n"}`, `{"text":"42"}`},
		{"exactly", `{"text":"$ref:padded"}`, `{"text":"42\n"}`},
		{"a structure, exactly", `{"text":"$ref:o"}`, `{"text":"{\"a\": [1,  2]}\n"}`},
		{"a structure where it may be one", `{"text or object":"$ref:o"}`, `{"text or object":{"a":[1,2]}}`},
		{"a structure where anything may be", `{"any":"$ref:o"}`, `{"any":{"a":[1,2]}}`},
		{"quotes, exactly", `{"text":"$ref:quoted"}`, `{"text":"\"hi\""}`},
		{"quotes where anything may be", `{"any":"$ref:quoted"}`, `{"any":"hi"}`},
		{"the text null", `{"text":"$ref:null"}`, `{"text":"null"}`},
		{"a field of it", `{"text":"$ref:o.a"}`, `{"text":"[1,2]"}`},
		{"plain text", `{"text":"$ref:plain","whole":"$ref:plain"}`, `{"text":"hi there","whole":"hi there"}`},

		{"a literal stays", `{"text":42,"whole":"42","any":"$ref:n"}`, `{"text":42,"whole":"42","any":42}`},
		{"a text stays one", `{"whole":{"$tpl":"${v#/n}"}}`, `{"whole":"42"}`},
		{"a text has a whole text as it was", `{"text":{"$tpl":"${o#}${quoted#}${null#}"}}`, `{"text":"{\"a\": [1,  2]}\n\"hi\"null"}`},
		{"a default goes the same way", `{"text":{"$ref":"v#/gone","default":1}}`, `{"text":"1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := resolve(t, c.raw, look.look, s); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

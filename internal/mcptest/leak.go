package mcptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
)

var lower = regexp.MustCompile("%..")

// Written returns a value in the encodings in which programs print values.
func Written(value string) []string {
	quoted, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings always marshal
	}
	twice, err := json.Marshal(string(quoted))
	if err != nil {
		panic(err)
	}
	return []string{
		value, strconv.Quote(value), strconv.QuoteToASCII(value), string(quoted), string(twice),
		url.QueryEscape(value), url.PathEscape(value), lower.ReplaceAllStringFunc(url.QueryEscape(value), strings.ToLower),
		base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte("bob:" + value)),
		base64.StdEncoding.EncodeToString([]byte("robert:" + value + "\n")),
	}
}

// leak prints the values of the variables in Leaks to stderr, as a careless program does when it
// crashes.
func (o *Options) leak() {
	for _, name := range o.Leaks {
		value := os.Getenv(name)
		for i, written := range Written(value) {
			fmt.Fprintf(os.Stderr, "%d: login as bob:%s@host refused\n", i, written)
		}
		half := len(value) / 2
		fmt.Fprint(os.Stderr, "in two writes: "+value[:half])
		fmt.Fprintln(os.Stderr, value[half:])
		fmt.Fprintln(os.Stderr, strings.Repeat("a long line ", 1<<10/12)+value)
		fmt.Fprintln(os.Stderr, strings.Repeat("a-long-word-", 1<<10/12)+value)
	}
	if len(o.Leaks) > 0 {
		value := os.Getenv(o.Leaks[0])
		fmt.Fprint(os.Stderr, "and then it stopped within "+value[:len(value)-1])
	}
}

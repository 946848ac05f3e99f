package classify

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ownRules are those of commands that no table of options describes: name → whether a
// call with these words reads.
var ownRules = map[string]func(words []word, fed bool) bool{
	"printf": printf,
	"test":   test,
	"[": func(words []word, fed bool) bool {
		last := len(words) - 1
		return last >= 0 && words[last].text == "]" && test(words[:last], fed)
	},
	"date": date,
	"sed":  sed,
}

// printf wants a format of strings alone: zsh and ksh evaluate the operands of %d,
// which may assign a variable or run a command.
func printf(words []word, _ bool) bool {
	if len(words) == 0 || !words[0].operand() {
		return false
	}
	format := strings.NewReplacer("%s", "", "%%", "").Replace(words[0].text)
	return !words[0].glob && !strings.Contains(format, "%")
}

// test knows the tests of files and strings; -v, and -eq in ksh, evaluate
// their operands.
func test(words []word, _ bool) bool {
	if len(words) > 0 && words[0].text == "!" {
		words = words[1:]
	}
	if slices.ContainsFunc(words, func(w word) bool { return w.glob }) {
		return false
	}
	switch len(words) {
	case 2:
		op := words[0].text
		return len(op) == 2 && op[0] == '-' && onlyOf(op[1:], "bcdefghknprsuwxzLS") && words[1].operand()
	case 3:
		op := words[1].text
		return words[0].operand() && words[2].operand() && (op == "=" || op == "!=")
	}
	return false
}

// date refuses every operand but a format: another one sets the clock, as
// does -d on some systems.
func date(words []word, _ bool) bool {
	formats := 0
	for _, w := range words {
		switch {
		case w.glob:
			return false
		case w.text == "-u", w.text == "-R", w.text == "-Iseconds", w.text == "-I", strings.HasPrefix(w.text, "--date="):
		case w.text[0] == '+':
			formats++
		default:
			return false
		}
	}
	return formats <= 1
}

// sed knows sed -n '10,20p' and nothing else: sed's other commands write
// files (w) and run programs (e).
func sed(words []word, fed bool) bool {
	if len(words) < 2 || words[0].text != "-n" || words[1].glob || !sedScript().MatchString(words[1].text) {
		return false
	}
	files := words[2:]
	return (fed || len(files) > 0) && !slices.ContainsFunc(files, func(w word) bool { return !w.operand() })
}

var sedScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+|\$)(,([0-9]+|\$))?p(;([0-9]+|\$)(,([0-9]+|\$))?[pq])*$`)
})

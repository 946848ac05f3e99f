package valuemodel

import (
	"regexp"
	"strings"
	"sync"
)

// shellCommandNamed is the table of commands that read. Options are those that GNU,
// BSD and busybox agree on, or that one of them alone has. Left out on purpose:
// what runs other commands (awk, xargs, env, find -exec, rg --pre), what writes
// (tee, sort -o, tree -o, file -C), what may fetch a tool chain first (go, node,
// cargo), what waits (tail -f), and what reads devices on its way (grep -R).
func shellCommandNamed(name string) (c shellCommand, ok bool) {
	switch name {
	case "ls":
		return shellCommand{operands: anyNumber, flags: "aAlhrRtSs1dFipnoBCcgGkLmNqQuvxX",
			long: "all almost-all human-readable recursive reverse size inode directory full-time group-directories-first color? sort= time= time-style= hide= ignore="}, true
	case "cat":
		return shellCommand{operands: anyNumber, files: 1, flags: "AbeEnstTuv", long: "number number-nonblank show-all squeeze-blank"}, true
	case "head", "tail":
		return shellCommand{operands: anyNumber, files: 1, flags: "0123456789qvz", valued: "nc", long: "lines= bytes= quiet silent verbose"}, true
	case "wc":
		return shellCommand{operands: anyNumber, files: 1, flags: "clmwL", long: "lines words bytes chars max-line-length"}, true
	case "pwd":
		return shellCommand{flags: "LP"}, true
	case "echo":
		return shellCommand{own: func([]shellWord, bool) bool { return true }}, true
	case "printf":
		return shellCommand{own: readsPrintf}, true
	case "test":
		return shellCommand{own: readsTest}, true
	case "[":
		return shellCommand{own: func(words []shellWord, fed bool) bool {
			last := len(words) - 1
			return last >= 0 && words[last].text == "]" && readsTest(words[:last], fed)
		}}, true
	case "true", "false", "whoami", "nproc":
		return shellCommand{}, true
	case "grep", "egrep", "fgrep":
		return shellCommand{operands: anyNumber, also: grepHasFiles,
			flags: "0123456789abcEFGhHiIlLnoPqrsvwxyZ", valued: "ABCefm",
			long: "ignore-case no-ignore-case invert-match word-regexp line-regexp count color? colour? files-with-matches files-without-match max-count= only-matching quiet no-messages byte-offset with-filename no-filename line-number after-context= before-context= context= text include= exclude= exclude-dir= recursive regexp= file= extended-regexp fixed-strings perl-regexp null"}, true
	case "rg":
		return shellCommand{operands: anyNumber, also: grepHasFiles,
			flags: "0aciIlnNopqsSFHuUvwxP.", valued: "ABCegmtTM",
			long: "ignore-case smart-case case-sensitive fixed-strings word-regexp line-regexp invert-match count count-matches files files-with-matches files-without-match only-matching line-number no-line-number with-filename no-filename heading no-heading hidden no-ignore no-ignore-vcs no-config json multiline pcre2 quiet stats trim type-list after-context= before-context= context= regexp= file= glob= iglob= max-count= max-depth= max-columns= type= type-not= sort= color= replace="}, true
	case "find":
		return shellCommand{own: readsFind}, true
	case "sed":
		return shellCommand{own: readsSed}, true
	case "stat":
		return shellCommand{operands: anyNumber, flags: "Lfxlrsq", valued: "c", long: "format= printf= dereference file-system terse"}, true
	case "file":
		return shellCommand{operands: anyNumber, files: 1, flags: "bihLkNr0", long: "brief mime mime-type mime-encoding dereference"}, true
	case "du":
		return shellCommand{operands: anyNumber, flags: "abchkmsxHLPS", valued: "d", long: "all apparent-size bytes total human-readable summarize max-depth= exclude="}, true
	case "df":
		return shellCommand{operands: anyNumber, flags: "ahHikP", long: "all human-readable inodes local portability print-type"}, true
	case "tree":
		return shellCommand{operands: anyNumber, flags: "adfilpshugDFrtnCNqv", valued: "LIP", long: "dirsfirst noreport gitignore du prune"}, true
	}
	return textCommandNamed(name)
}

func textCommandNamed(name string) (c shellCommand, ok bool) {
	switch name {
	case "sort":
		return shellCommand{operands: anyNumber, files: 1, flags: "bdfghiMnrVcCmsuz", valued: "kt", long: "numeric-sort reverse unique human-numeric-sort version-sort ignore-case ignore-leading-blanks stable key= field-separator="}, true
	case "uniq":
		// A second operand is the file to write.
		return shellCommand{operands: 1, files: 1, flags: "cdiuz", valued: "fsw", long: "count repeated unique ignore-case skip-fields= skip-chars= check-chars="}, true
	case "cut":
		return shellCommand{operands: anyNumber, files: 1, flags: "nsz", valued: "bcdf", long: "bytes= characters= fields= delimiter= only-delimited complement output-delimiter="}, true
	case "tr":
		return shellCommand{operands: 2, flags: "cCds", long: "complement delete squeeze-repeats", also: func(a shellArgs) bool { return a.fed }}, true
	case "comm":
		return shellCommand{operands: 2, files: 2, flags: "123i"}, true
	case "diff":
		return shellCommand{operands: 2, files: 2, flags: "0123456789abBcdeEiNnpqrstTuwyZ", valued: "UCxI", long: "brief recursive new-file unified? context= side-by-side ignore-case ignore-all-space ignore-space-change ignore-blank-lines text color? exclude= report-identical-files"}, true
	case "cmp":
		return shellCommand{operands: 2, files: 2, flags: "bls", valued: "n", long: "print-bytes verbose quiet silent bytes="}, true
	case "nl":
		return shellCommand{operands: 1, files: 1, flags: "p", valued: "bdfhilnsvw"}, true
	case "tac":
		return shellCommand{operands: anyNumber, files: 1, flags: "br", valued: "s"}, true
	case "rev":
		return shellCommand{operands: anyNumber, files: 1}, true
	case "fold":
		return shellCommand{operands: anyNumber, files: 1, flags: "bs", valued: "w", long: "bytes spaces width="}, true
	case "expand":
		return shellCommand{operands: anyNumber, files: 1, flags: "i", valued: "t"}, true
	case "column":
		return shellCommand{operands: anyNumber, files: 1, flags: "tx", valued: "sc"}, true
	case "od":
		return shellCommand{operands: 1, files: 1, flags: "abcdoxv", valued: "AjNt"}, true
	case "hexdump":
		return shellCommand{operands: anyNumber, files: 1, flags: "bCcdovx", valued: "ns"}, true
	case "xxd":
		// A second operand is the file to write.
		return shellCommand{operands: 1, files: 1}, true
	case "jq":
		return shellCommand{operands: anyNumber, flags: "crnesSaCMj", also: jqHasFiles,
			long: "raw-output compact-output null-input exit-status slurp sort-keys raw-input tab join-output ascii-output color-output monochrome-output"}, true
	case "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum":
		return shellCommand{operands: anyNumber, files: 1, flags: "bctz", long: "binary check text tag"}, true
	}
	return systemCommandNamed(name)
}

func systemCommandNamed(name string) (c shellCommand, ok bool) {
	switch name {
	case "git":
		return shellCommand{own: readsGit}, true
	case "basename":
		return shellCommand{operands: anyNumber, flags: "az", valued: "s", long: "multiple suffix= zero"}, true
	case "dirname":
		return shellCommand{operands: anyNumber, flags: "z", long: "zero"}, true
	case "realpath":
		return shellCommand{operands: anyNumber, flags: "eLmPsqz", long: "canonicalize-existing canonicalize-missing no-symlinks relative-to= relative-base="}, true
	case "readlink":
		return shellCommand{operands: anyNumber, flags: "femnqsvz", long: "canonicalize canonicalize-existing canonicalize-missing no-newline"}, true
	case "date":
		return shellCommand{own: readsDate}, true
	case "uname":
		return shellCommand{flags: "asnrmpiov"}, true
	case "id":
		return shellCommand{operands: 1, flags: "Ggnruz"}, true
	case "hostname":
		return shellCommand{}, true // an operand is the new name, for some systems an option too
	case "printenv":
		return shellCommand{operands: anyNumber, flags: "0"}, true
	case "which":
		return shellCommand{operands: anyNumber, flags: "as"}, true
	case "type":
		return shellCommand{operands: anyNumber, flags: "aptPf"}, true
	case "command":
		return shellCommand{operands: anyNumber, flags: "vV", also: func(a shellArgs) bool { return a.has("v", "V") }}, true
	case "seq":
		return shellCommand{operands: 3, flags: "w", also: func(a shellArgs) bool {
			for _, w := range a.operands {
				if len(w.text) > 7 || !onlyOf(w.text, "0123456789") {
					return false
				}
			}
			return true
		}}, true
	case "python", "python3":
		return shellCommand{own: func(words []shellWord, _ bool) bool {
			return len(words) == 1 && (words[0].text == "--version" || words[0].text == "-V")
		}}, true
	}
	return shellCommand{}, false
}

// grepHasFiles reports whether grep or rg has something other than the standard
// input to search: the server's may be the connection to its client.
func grepHasFiles(a shellArgs) bool {
	need := 2
	if a.has("e", "f", "regexp", "file") {
		need--
	}
	return a.fed || len(a.operands) >= need || a.has("files", "type-list")
}

// jqHasFiles wants files even with -n: a filter may ask for input, and gets the
// standard one then.
func jqHasFiles(a shellArgs) bool { return a.fed || len(a.operands) >= 2 }

// readsPrintf wants a format of strings alone: zsh and ksh evaluate the operands
// of %d, which may assign a variable or run a command.
func readsPrintf(words []shellWord, _ bool) bool {
	if len(words) == 0 || !words[0].operand() {
		return false
	}
	format := strings.NewReplacer("%s", "", "%%", "").Replace(words[0].text)
	return !words[0].glob && !strings.Contains(format, "%")
}

// readsTest knows the tests of files and strings; -v, and -eq in ksh, evaluate
// their operands.
func readsTest(words []shellWord, _ bool) bool {
	if len(words) > 0 && words[0].text == "!" {
		words = words[1:]
	}
	for _, w := range words {
		if w.glob {
			return false
		}
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

// readsDate refuses every operand but a format: another one sets the clock, as
// does -d on some systems.
func readsDate(words []shellWord, _ bool) bool {
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

// readsFind knows predicates that test and print.
func readsFind(words []shellWord, _ bool) bool {
	for len(words) > 0 && (words[0].text == "-H" || words[0].text == "-L" || words[0].text == "-P") {
		words = words[1:]
	}
	for len(words) > 0 && words[0].operand() && words[0].text != "(" && words[0].text != "!" {
		words = words[1:]
	}
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch w.text {
		case "(", ")", "!", "-a", "-o", "-and", "-or", "-not", "-print", "-print0", "-ls", "-prune", "-quit", "-true", "-false",
			"-empty", "-depth", "-xdev", "-mount", "-follow", "-daystart", "-readable", "-writable", "-executable":
		case "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-lname", "-regex", "-iregex", "-regextype",
			"-type", "-xtype", "-size", "-perm", "-user", "-group", "-links", "-inum", "-maxdepth", "-mindepth",
			"-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-newer", "-newermt", "-printf":
			if len(words) == 0 || words[0].glob || !findValue().MatchString(words[0].text) {
				return false
			}
			words = words[1:]
		default:
			return false
		}
	}
	return true
}

// findValue is a value that is no predicate: -7 is one for -mtime.
var findValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([^-]|-[0-9]+[a-zA-Z]?$)`)
})

// readsSed knows sed -n '10,20p' and nothing else: sed's other commands write
// files (w) and run programs (e).
func readsSed(words []shellWord, fed bool) bool {
	if len(words) < 2 || words[0].text != "-n" || words[1].glob || !sedScript().MatchString(words[1].text) {
		return false
	}
	for _, w := range words[2:] {
		if !w.operand() {
			return false
		}
	}
	return fed || len(words) > 2
}

var sedScript = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+|\$)(,([0-9]+|\$))?p(;([0-9]+|\$)(,([0-9]+|\$))?[pq])*$`)
})

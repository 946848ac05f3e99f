package secret

import (
	"strings"
	"sync"
)

// Commands: what options of one letter mean depends on the program.

// flag is an option of one letter that takes a password.
type flag struct {
	letter   byte
	kind     kind
	joined   bool // it must be: -phunter2; what stands apart is something else
	programs string
}

// flags are such options. That -u takes a user is so common that any program may
// have it.
var flags = [...]flag{
	{'a', userPassword, false, "http https xh"},
	{'a', password, false, "redis-cli valkey-cli"},
	{'p', password, true, "mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlslap mysqlsh mariadb mariadb-dump mariadb-admin mycli 7z 7za 7zz rar unrar"},
	{'p', password, false, "sshpass login mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat cqlsh rdesktop"},
	{'P', password, false, "sqlcmd bcp tsql ipmitool mosquitto_pub mosquitto_sub zip unzip"},
	{'w', password, false, "ldapsearch ldapadd ldapmodify ldapdelete ldapcompare ldapwhoami ldappasswd"},
	{'k', password, false, "openssl"},
}

// flagsOf are the options of each program.
var flagsOf = sync.OnceValue(func() map[string]flag {
	all := make(map[string]flag)
	for _, f := range flags {
		for program := range strings.FieldsSeq(f.programs) {
			all[program] = f
		}
	}
	return all
})

const (
	longestCommand  = 160 // bytes before an option in which its program is looked for
	mostWordsBefore = 24
)

// flagged says what an option of one letter means behind a command. The program need
// not be the first word: sudo, docker exec and ssh stand before others.
func flagged(command string, letter byte, joined bool) kind {
	switch letter {
	case 'u', 'U':
		return userPassword
	case 'a', 'p', 'P', 'w', 'k':
	default:
		return plain
	}
	command = command[max(0, len(command)-longestCommand):]
	command = command[strings.LastIndexAny(command, "\n;|&")+1:]
	for to, n := len(command), 0; to > 0 && n < mostWordsBefore; n++ {
		from := strings.LastIndexByte(command[:to], ' ') + 1
		if f := flagsOf()[program(command[from:to])]; f.letter == letter && (joined || !f.joined) {
			return f.kind
		}
		to = from - 1
	}
	return plain
}

// program is the name of the program that a word may be; "": it is none.
func program(word string) string {
	if len(word) < 2 || word[0] == '-' {
		return ""
	}
	word = strings.TrimRight(word, "\"'`")
	return word[strings.LastIndexAny(word, "/=\"'`($[")+1:]
}

// option classifies the word from from to to, behind which a space stands: --token,
// -storepass, -p. A name without a dash is one that no sentence has.
func (a *assigner) option(from, to int) kind {
	word := a.s[from:to]
	switch {
	case strings.HasPrefix(word, "--"):
		return long(word)
	case word[0] != '-':
		if k := classify(word); kinds[k].sure && strings.Contains(word, "_") {
			return said
		}
		return plain
	case len(word) == 2:
		return flagged(a.s[max(0, from-longestCommand):from], word[1], false)
	}
	return classify(word)
}

// long classifies a name that may be an option.
func long(word string) kind {
	if word == "--user" || word == "--proxy-user" {
		return userPassword
	}
	return classify(word)
}

// attached is the value that stands behind an option of one letter at i without
// anything between: mysql -phunter2.
func (a *assigner) attached(i int) span {
	if i+2 >= len(a.s) || i > 0 && strings.IndexByte(" \t\n\"'`", a.s[i-1]) < 0 || strings.IndexByte(" \t\r\n", a.s[i+2]) >= 0 {
		return span{}
	}
	k := flagged(a.s[max(0, i-longestCommand):i], a.s[i+1], true)
	if k == plain {
		return span{}
	}
	v := a.value(i+1, k)
	if v.spaced || v.from == v.to || !k.value(a.s[v.from:v.to]) {
		return span{}
	}
	if k == userPassword {
		v.from += strings.IndexByte(a.s[v.from:v.to], ':') + 1
	}
	return span{v.from, v.end, kinds[k].rule}
}

// command is a list of the words of a command, as it is gone through.
type command struct {
	line string // its words so far, the last ones
	next kind   // what the last of them says of the next
}

// see takes the next word. It returns where a password begins in it that is joined
// to an option; 0: there is none.
func (c *command) see(word string) (secret int) {
	c.next = plain
	switch {
	case len(word) < 2 || word[0] != '-' || strings.ContainsAny(word, " ="):
	case word[1] == '-':
		c.next = long(word)
	case len(word) == 2:
		c.next = flagged(c.line, word[1], false)
	default:
		if k := flagged(c.line, word[1], true); k.value(word[2:]) && marked(word[2:]) == 0 {
			secret = 2
			if k == userPassword {
				secret = strings.IndexByte(word, ':') + 1
			}
		}
		c.next = classify(word)
	}
	if len(word) <= longestCommand {
		c.line += word + " "
		c.line = c.line[max(0, len(c.line)-longestCommand):]
	}
	return secret
}

package ioprio

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// whitespace separates words (systemd src/basic/string-util.h, WHITESPACE).
const whitespace = " \t\n\r"

var errUnbalanced = errors.New("unbalanced quoting")

// splitWords splits a value of a unit file into its words, with quotes and C-style escapes resolved (systemd.syntax(7),
// "Quoting"). Contrary to what that page says, a quote in the middle of a word counts, too: --data-dir="/a b" is one word
// without quotes (src/basic/extract-word.c).
func splitWords(s string) ([]string, error) {
	var words []string
	for {
		word, rest, ok, err := firstWord(s, true)
		if err != nil || !ok {
			return words, err
		}
		words, s = append(words, word), rest
	}
}

// splitExec splits a command line of a unit file (systemd.service(5), "Command lines") into the executable and its
// arguments: prefixes of the executable and the argv[0] that "@" announces are dropped. A lone ";" ends the command, and
// what follows it is ignored: only a unit with Type=oneshot has a second one. With the prefix ":" no variables are expanded.
func splitExec(s string) (exec []string, expand bool, err error) {
	expand = true
	dropArgv0 := false
	for {
		s = strings.TrimLeft(s, whitespace)
		if lone(s, ";") {
			break
		}
		if lone(s, `\;`) {
			exec, s = append(exec, ";"), s[2:]
			continue
		}
		word, rest, ok, err := firstWord(s, true)
		if err != nil {
			return nil, false, err
		}
		if !ok {
			break
		}
		s = rest
		if exec == nil {
			bare := strings.TrimLeft(word, "-@:+!|")
			prefix := word[:len(word)-len(bare)]
			expand, dropArgv0 = !strings.Contains(prefix, ":"), strings.Contains(prefix, "@")
			word = bare
		}
		exec = append(exec, word)
	}
	if dropArgv0 && len(exec) > 1 {
		exec = append(exec[:1], exec[2:]...)
	}
	return exec, expand, nil
}

// lone reports whether s starts with the token as an unquoted word of its own.
func lone(s, token string) bool {
	rest, ok := strings.CutPrefix(s, token)
	return ok && (rest == "" || strings.ContainsRune(whitespace, rune(rest[0])))
}

// firstWord is extract_first_word of systemd's src/basic/extract-word.c. As a word of a unit file, C-style escapes are
// resolved, unknown ones stay as they are, and a quote that is not closed is an error. As a word of a variable's value,
// a backslash stands for the character after it and a quote may stay open.
func firstWord(s string, unitFile bool) (word, rest string, ok bool, err error) {
	s = strings.TrimLeft(s, whitespace)
	if s == "" {
		return "", "", false, nil
	}
	var b strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\':
			if i+1 == len(s) {
				if unitFile {
					b.WriteByte(c)
				}
				break
			}
			i++
			text, n := s[i:i+1], 1
			if unitFile {
				text, n = unescapeC(s[i:])
			}
			b.WriteString(text)
			i += n - 1
		case c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '\'' || c == '"':
			quote = c
		case strings.ContainsRune(whitespace, rune(c)):
			return b.String(), s[i:], true, nil
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 && unitFile {
		return "", "", false, errUnbalanced
	}
	return b.String(), "", true, nil
}

// unescapeC is what a C-style escape without its backslash stands for, and its length (src/basic/escape.c,
// cunescape_one). An unknown one stays as it is, with its backslash, and so does one that stands for NUL.
func unescapeC(s string) (text string, n int) {
	if i := strings.IndexByte(`abfnrtv\"'s`, s[0]); i >= 0 {
		return "\a\b\f\n\r\t\v\\\"' "[i : i+1], 1
	}
	number := func(skip, digits, base, bits int) uint64 {
		if len(s) < skip+digits {
			return 0
		}
		v, err := strconv.ParseUint(s[skip:skip+digits], base, bits)
		if err != nil {
			return 0
		}
		return v
	}
	switch s[0] {
	case 'x':
		if v := number(1, 2, 16, 8); v != 0 {
			return string([]byte{byte(v)}), 3
		}
	case 'u':
		if v := number(1, 4, 16, 16); v != 0 {
			return string(rune(v)), 5
		}
	case 'U':
		if v := number(1, 8, 16, 31); v != 0 && utf8.ValidRune(rune(v)) {
			return string(rune(v)), 9
		}
	case '0', '1', '2', '3':
		if v := number(0, 3, 8, 8); v != 0 {
			return string([]byte{byte(v)}), 3
		}
	}
	return `\` + s[:1], 1
}

// expandExec expands the variables in the arguments of a command (systemd.service(5), "Command lines"): $NAME as a word
// of its own becomes any number of words, ${NAME} within a word its exact value, $$ a dollar sign.
func expandExec(exec []string, env map[string]setting) []string {
	var out []string
	for i, word := range exec {
		switch {
		case i == 0:
			out = append(out, word)
		case len(word) > 1 && word[0] == '$' && word[1] != '{' && word[1] != '$':
			for rest := env[word[1:]].value; ; {
				w, next, ok, _ := firstWord(rest, false) // the words of a variable have no errors
				if !ok {
					break
				}
				out, rest = append(out, w), next
			}
		default:
			out = append(out, expandBraces(word, env))
		}
	}
	return out
}

func expandBraces(word string, env map[string]setting) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(word, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, rest, closed := strings.Cut(after, "}")
		switch {
		case strings.HasPrefix(after, "$"):
			b.WriteByte('$')
			word = after[1:]
		case closed && strings.HasPrefix(name, "{"):
			b.WriteString(env[name[1:]].value)
			word = rest
		default:
			b.WriteByte('$')
			word = after
		}
	}
}

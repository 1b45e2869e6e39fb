package ioprio

import "strings"

// parseEnvFile reads what EnvironmentFile= names (systemd.exec(5)), with the states of systemd's
// src/basic/env-file.c: quotes count only before the first other character of a value, lines without "=" are ignored, and
// the file may end anywhere. Before systemd 254 a comment that ends with a backslash hid the next line; it does not here.
func parseEnvFile(data []byte) map[string]string {
	s, _, _ := strings.Cut(string(data), "\x00")
	vars := make(map[string]string)
	for s != "" {
		s = strings.TrimLeft(s, whitespace)
		end := strings.IndexAny(s, "\n\r")
		equals := strings.IndexByte(s, '=')
		switch {
		case s == "":
		case s[0] == '#' || s[0] == ';' || equals < 0 || (end >= 0 && end < equals):
			if end < 0 {
				return vars
			}
			s = s[end:]
		default:
			key := strings.TrimRight(s[:equals], whitespace)
			vars[key], s = envValue(s[equals+1:])
		}
	}
	return vars
}

// envValue reads a value up to the end of its line, or of its last continued or quoted line.
func envValue(s string) (value, rest string) {
	var b []byte
	keep := 0        // how much of b is not trailing whitespace outside of quotes and escapes
	started := false // at the first character that is neither whitespace nor quoted, quotes lose their meaning
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n' || c == '\r':
			return string(b[:keep]), s[i:]
		case c == '\\':
			started = true
			if i++; i < len(s) && s[i] != '\n' && s[i] != '\r' {
				b = append(b, s[i])
			}
			keep = len(b)
		case !started && (c == '\'' || c == '"'):
			var quoted string
			quoted, i = envQuoted(s, i)
			b = append(b, quoted...)
			keep = len(b)
		case c == ' ' || c == '\t':
			if started {
				b = append(b, c)
			}
		default:
			started = true
			b = append(b, c)
			keep = len(b)
		}
	}
	return string(b[:keep]), ""
}

// envQuoted reads from the quote at s[i] to its end, whose index it returns.
func envQuoted(s string, i int) (string, int) {
	var b strings.Builder
	quote := s[i]
	for i++; i < len(s) && s[i] != quote; i++ {
		if quote == '\'' || s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case '"', '\\', '`', '$': // SHELL_NEED_ESCAPE
			b.WriteByte(s[i])
		case '\n': // a continued line
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String(), i
}

package workspace

import "unicode/utf8"

// matchGlob reports whether name as a whole fits the pattern: "*" is any run of
// characters, "/" included, "?" is one character, and everything else stands for
// itself. It takes at most len(pattern) × len(name) steps.
func matchGlob(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0 // where to go on after the last "*" if this way fails
	for n < len(name) {
		r, size := utf8.DecodeRuneInString(name[n:])
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, mark = p, n
				p++
				continue
			}
			pr, psize := utf8.DecodeRuneInString(pattern[p:])
			if pattern[p] == '?' || pr == r && (pr != utf8.RuneError || pattern[p] == name[n]) {
				p, n = p+psize, n+size
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, size = utf8.DecodeRuneInString(name[mark:])
		mark += size
		p, n = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

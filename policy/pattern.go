package policy

import (
	"unicode"
	"unicode/utf8"
)

// A compiled pattern is a list of tokens: literal characters, the two wildcards,
// and bytes that are not UTF-8. Matching walks the tokens without recursion, so a
// hostile pattern costs at most pattern × target comparisons, and nothing can fail
// to compile: a deny rule cannot vanish because it was too large.
const (
	tokStar    rune = -1               // any run of characters
	tokOne     rune = -2               // exactly one character
	tokBadByte rune = utf8.MaxRune + 1 // + b: the byte b, where it is not valid UTF-8
)

// chars is what can be matched. Command lines are assembled in a byte buffer on the
// stack; everything else is a string.
type chars interface{ ~string | ~[]byte }

// compile turns pattern text into tokens, folded when fold is set. Runs of stars
// become one, which changes no match and bounds the work.
func compile(text string, fold bool) []rune {
	toks := make([]rune, 0, len(text))
	for i := 0; i < len(text); {
		r, n := charAt(text, i)
		i += n
		switch r {
		case '*':
			if len(toks) == 0 || toks[len(toks)-1] != tokStar {
				toks = append(toks, tokStar)
			}
		case '?':
			toks = append(toks, tokOne)
		default:
			if fold {
				r = foldChar(r)
			}
			toks = append(toks, r)
		}
	}
	return toks
}

// match reports whether the tokens cover the whole of t. With fold, the tokens are
// folded already and t is folded while it is read.
func match[T chars](toks []rune, t T, fold bool) bool {
	if endsOtherwise(toks, t, fold) {
		return false
	}
	pi, ti := 0, 0
	star, mark := -1, 0 // the last star seen, and where its run ends in t
	for ti < len(t) {
		if pi < len(toks) && toks[pi] == tokStar {
			if pi == len(toks)-1 {
				return true
			}
			star, mark = pi, ti
			pi++
			continue
		}
		r, n := charAt(t, ti)
		if fold {
			r = foldChar(r)
		}
		if pi < len(toks) && (toks[pi] == tokOne || toks[pi] == r) {
			pi++
			ti += n
			continue
		}
		if star < 0 {
			return false
		}
		// Let the last star take one character more. Earlier stars never need to be
		// tried again: what they took was the shortest that worked.
		_, n = charAt(t, mark)
		mark += n
		pi, ti = star+1, mark
	}
	for pi < len(toks) && toks[pi] == tokStar {
		pi++
	}
	return pi == len(toks)
}

// endsOtherwise reports that the last characters differ, which spares the walk for
// most pairs of a pattern and a target: looking through a whole tree for what may
// not be read takes a third of the time with it. It says false where it would have
// to look closely.
func endsOtherwise[T chars](toks []rune, t T, fold bool) bool {
	if len(toks) == 0 || len(t) == 0 {
		return false
	}
	last, b := toks[len(toks)-1], t[len(t)-1]
	if last < 0 || last >= utf8.RuneSelf || b >= utf8.RuneSelf {
		return false
	}
	r := rune(b)
	if fold {
		r = foldChar(r)
	}
	return r != last
}

// charAt reads the character at i and its width in bytes. A byte that is not valid
// UTF-8 is one character, equal only to itself.
func charAt[T chars](t T, i int) (rune, int) {
	b := t[i]
	if b < utf8.RuneSelf {
		return rune(b), 1
	}
	r, n := utf8.DecodeRuneInString(string(t[i:min(i+utf8.UTFMax, len(t))]))
	if r == utf8.RuneError && n == 1 {
		return tokBadByte + rune(b), 1
	}
	return r, n
}

// foldChar maps all characters that differ only by case to one of them: the
// smallest of the Unicode simple folding orbit, so that the Kelvin sign folds with
// k and the long s with s.
func foldChar(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}
	if r > utf8.MaxRune {
		return r
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

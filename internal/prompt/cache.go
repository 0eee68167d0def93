package prompt

// PrefixGuard decides whether the frozen prefix of a request may be marked for
// the vendor's cache: only once it has been sent before, byte for byte. A mark
// costs more than it saves unless the next request repeats it. One guard serves
// one agent for one drive; the zero value has seen nothing. It is not safe for
// concurrent use.
type PrefixGuard struct {
	last    string
	marking bool
}

// Mark looks at the request of the next step and returns the boundary for it in
// bytes of User, 0 for none. began says that marking starts with this request,
// once for each prefix.
func (g *PrefixGuard) Mark(r Rendered) (boundary int, began bool) {
	candidate := r.User[:r.Frozen]
	switch {
	case candidate == "":
		*g = PrefixGuard{}
		return 0, false
	case candidate != g.last:
		*g = PrefixGuard{last: candidate}
		return 0, false
	}
	began = !g.marking
	g.marking = true
	return len(candidate), began
}

// CacheThrough is how many leading messages lie wholly inside the boundary: 0
// when that is none of them or all. A turn with calls is never the last of them.
func (r Rendered) CacheThrough(boundary int) int {
	if boundary <= 0 {
		return 0
	}
	n := 0
	for n < len(r.ends) && r.ends[n] <= boundary {
		n++
	}
	if n == len(r.ends) {
		return 0
	}
	for n > 0 && len(r.Messages[n-1].Calls) > 0 {
		n-- // a turn may be told as prose on the next request
	}
	return n
}

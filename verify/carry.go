package verify

import "reflect"

// WithPins returns fresh with what stored was prepared with: the fingerprints of
// a run that goes on, with the reviewers and functions that no store can hold. It
// reports false, and returns fresh, when the two are not the same criterion.
func WithPins(fresh, stored Criterion) (Criterion, bool) {
	if fresh == nil || stored == nil || !reflect.DeepEqual(unpinned(fresh.record()), unpinned(stored.record())) {
		return fresh, false
	}
	return graft(fresh, stored), true
}

// unpinned is r as it was before Prepare.
func unpinned(r record) record {
	r.Prepared, r.Pin, r.Protected = false, nil, nil
	if r.Compiler != nil {
		c := unpinned(*r.Compiler)
		r.Compiler = &c
	}
	inner := make([]record, len(r.Criteria))
	for i, c := range r.Criteria {
		inner[i] = unpinned(c)
	}
	r.Criteria = inner
	return r
}

// graft puts the functions of fresh into stored, which is of the same shape.
func graft(fresh, stored Criterion) Criterion {
	switch s := stored.(type) {
	case ReviewCriterion, FuncCriterion:
		return fresh
	case ProtectedCriterion:
		if f := fresh.(ProtectedCriterion); s.inner != nil {
			s.inner = graft(f.inner, s.inner)
		}
		return s
	case AllCriterion:
		f := fresh.(AllCriterion)
		each := make([]Criterion, len(s.each))
		for i := range s.each {
			each[i] = graft(f.each[i], s.each[i])
		}
		return AllCriterion{each}
	}
	return stored
}

// TellsModel reports whether a verdict of the phase against the work belongs in
// the next request: what a command or a compiler printed always does, a content
// criterion's never, and a reviewer's reasons where [ReviewCriterion.TellModel]
// says so.
func TellsModel(c Criterion, phase Phase) bool {
	switch phase {
	case PhaseContains:
		return false
	case PhaseReview:
		tells := c != nil
		_ = walk(c, func(part Criterion) error { // fn does not fail
			if r, ok := part.(ReviewCriterion); ok && !r.tell {
				tells = false
			}
			return nil
		})
		return tells
	}
	return true
}

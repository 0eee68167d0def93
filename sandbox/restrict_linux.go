package sandbox

// restriction is what a scratch thread does to itself before it starts a child.
// The zero value does nothing.
type restriction struct{}

func newRestriction(s *spec) (*restriction, error) { return &restriction{}, nil }

// spoils reports whether the thread is unfit for other work afterwards.
func (r *restriction) spoils() bool { return false }
func (r *restriction) apply() error { return nil }
func (r *restriction) close()       {}

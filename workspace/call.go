package workspace

// ForCall returns the workspace of the same run whose writes are reported to j:
// one call's view. What the run knows of files is shared with every other view.
func (w *Workspace) ForCall(j Journal) *Workspace {
	c := *w
	c.journal = j
	return &c
}

package workspace

import "maps"

// Aside returns a view that keeps what it sees of files to itself until keep is
// called: for a read that may turn out not to have been wanted, and must then
// leave no mark on what the run knows. keep may be called once, after the last
// use of the view.
func (w *Workspace) Aside() (view *Workspace, keep func()) {
	c := *w
	c.memory = newMemory()
	return &c, func() {
		c.memory.mu.Lock()
		seen := maps.Clone(c.memory.known)
		c.memory.mu.Unlock()
		for key, k := range seen {
			w.memory.set(key, k)
		}
	}
}

package workspace

import (
	"crypto/sha256"
	"sync"
)

type digest [sha256.Size]byte

// memory is what one run knows of files: the digest of each as the run last saw
// it, and which ones have a restore point. Keys are those of directory.key.
type memory struct {
	mu    sync.Mutex
	known map[string]knowledge
	kept  map[string]bool
}

type knowledge struct {
	absent bool
	sum    digest
}

func newMemory() *memory {
	return &memory{known: map[string]knowledge{}, kept: map[string]bool{}}
}

func (m *memory) saw(key string, data []byte) {
	m.set(key, knowledge{sum: sha256.Sum256(data)})
}

func (m *memory) sawAbsent(key string) { m.set(key, knowledge{absent: true}) }

func (m *memory) set(key string, k knowledge) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[key] = k
}

func (m *memory) of(key string) (knowledge, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.known[key]
	return k, ok
}

func (m *memory) hasRestorePoint(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[key]
}

func (m *memory) keep(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[key] = true
}

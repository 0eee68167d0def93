package wire

import "github.com/initorigin/io-harness-go/provider"

// Sources collects citations, each URL once.
type Sources struct {
	list []provider.Citation
	at   map[string]int // where each URL stands: some servers repeat all of them in every event
}

// Add notes a source. A URL that is known already adds no entry and only fills
// in what was missing.
func (s *Sources) Add(c provider.Citation) {
	if c.URL == "" {
		return
	}
	i, known := s.at[c.URL]
	if !known {
		if s.at == nil {
			s.at = map[string]int{}
		}
		s.at[c.URL] = len(s.list)
		s.list = append(s.list, c)
		return
	}
	if s.list[i].Title == "" {
		s.list[i].Title = c.Title
	}
	if s.list[i].Text == "" {
		s.list[i].Text = c.Text
	}
}

// List is what was collected, nil when there is nothing.
func (s *Sources) List() []provider.Citation { return s.list }

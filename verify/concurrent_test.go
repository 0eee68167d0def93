package verify

import (
	"sync"
	"testing"
)

func TestASchemaServesManyAtOnce(t *testing.T) {
	s := mustSchema(t, pairShape)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, fail := s.Check(`{"n":1}`); fail != nil || string(got) != `{"n":1}` {
					t.Errorf("Check = %s, %v", got, fail)
				}
				if _, fail := s.Check(`{"n":"x","s":2}`); fail == nil || len(fail.Violations) != 2 {
					t.Errorf("Check = %v, want two failures", fail)
				}
				s.Strict()
			}
		})
	}
	wg.Wait()
}

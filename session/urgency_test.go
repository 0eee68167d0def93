package session

import (
	"testing"

	"github.com/initorigin/io-harness-go/internal/loop"
)

// Of several interrupts the earliest point holds, in whatever order they come.
func TestALaterPointDoesNotPutOffAnEarlierInterrupt(t *testing.T) {
	points := []When{AfterTools, AfterCompletion, AtOnce}
	for i, first := range points {
		for j, second := range points {
			s, in := NewSteer()
			for _, when := range []When{first, second, second} {
				if err := s.Interrupt(when); err != nil {
					t.Fatal(err)
				}
			}
			for k, by := range points {
				if got, want := in.line.Interrupted(loop.When(by)), k <= max(i, j); got != want {
					t.Errorf("%q, then %q: interrupts at %q: %v", first, second, by, got)
				}
			}
			select {
			case <-in.line.AtOnce():
				if first != AtOnce && second != AtOnce {
					t.Errorf("%q, then %q: does not wait", first, second)
				}
			default:
				if first == AtOnce || second == AtOnce {
					t.Errorf("%q, then %q: waits", first, second)
				}
			}
		}
	}
}

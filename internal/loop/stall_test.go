package loop

import (
	"fmt"
	"testing"

	"github.com/initorigin/io-harness-go/task"
)

func TestStallPolicy(t *testing.T) {
	repeat := func(sig string, n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = sig
		}
		return out
	}
	different := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint("read", i)
		}
		return out
	}
	for _, tc := range []struct {
		name            string
		policy          task.Stall
		steps           []string
		changed         bool
		replanAt, endAt int // step numbers from 1; 0: never
	}{
		{"the same read six times is told after three and stopped at six", task.Stall{}, repeat("a", 6), false, 3, 6},
		{"the same call is a stall although it changes something", task.Stall{}, repeat("a", 6), true, 3, 6},
		{"steps without a call repeat too", task.Stall{}, repeat("", 6), false, 3, 6},
		{"exploring with different calls never stalls", task.Stall{}, different(20), false, 0, 0},
		{"going back and forth between two reads is a stall", task.Stall{}, []string{"a", "b", "a", "b", "a", "b", "a"}, false, 3, 6},
		{"going back and forth is none while something changes", task.Stall{}, []string{"a", "b", "a", "b", "a", "b"}, true, 0, 0},
		{"a negative window never stalls", task.Stall{Window: -1}, repeat("a", 50), false, 0, 0},
		{"a window of one needs two equal steps", task.Stall{Window: 1}, []string{"a", "b", "c", "c", "d", "d"}, false, 4, 6},
		{"no replans stops at the first stall", task.Stall{Replans: -1}, repeat("a", 3), false, 0, 3},
		{"two replans are told twice", task.Stall{Replans: 2}, repeat("a", 9), false, 3, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStall(tc.policy)
			replanAt, endAt := 0, 0
			for i, sig := range tc.steps {
				switch s.step(sig, tc.changed) {
				case replan:
					if replanAt == 0 {
						replanAt = i + 1
					}
				case stalled:
					if endAt == 0 {
						endAt = i + 1
					}
				}
			}
			if replanAt != tc.replanAt || endAt != tc.endAt {
				t.Errorf("replan at %d and end at %d, want %d and %d", replanAt, endAt, tc.replanAt, tc.endAt)
			}
		})
	}
}

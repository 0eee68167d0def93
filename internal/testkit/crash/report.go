package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// report is what a campaign found. Its methods may be called at the same time.
type report struct {
	mu       sync.Mutex
	kills    int
	trials   int
	settled  int // calls that a person had to settle
	damage   damage
	byStep   map[string]int
	byPoint  map[string]int
	byCommit map[string]int // those of byPoint that lie at a commit
	races    int
	refused  int // races in which a second driver was refused by name
	waited   int // how often
	failures []string
	progress io.Writer // nil for none
}

func newReport() *report {
	return &report{byStep: map[string]int{}, byPoint: map[string]int{}, byCommit: map[string]int{}}
}

// tooMany is how many differences end a campaign: more say nothing new.
const tooMany = 10

func (r *report) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > tooMany
}

func (r *report) killed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kills
}

func (r *report) fail(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, what)
}

// kill counts one kill by where the run stood.
func (r *report) kill(p profile, step int, point string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills++
	if r.kills%100 == 0 && r.progress != nil {
		fmt.Fprintf(r.progress, "%d kills in %d runs, %d differences\n", r.kills, r.trials, len(r.failures))
	}
	decade := "before the first commit"
	if step > 0 {
		low := (step-1)/10*10 + 1
		decade = fmt.Sprintf("behind step %2d to %2d", low, low+9)
	}
	r.byStep[string(p)+", "+decade]++
	if strings.HasPrefix(point, "commit") {
		r.byCommit[point]++
		point = "a commit"
	}
	r.byPoint[point]++
}

func (r *report) trial(d damage, settled int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trials++
	r.settled += settled
	r.damage.add(d)
}

// write prints the tables.
func (r *report) write(w io.Writer, seed uint64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	table := func(head string, rows map[string]int) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(t, "kills\t  %s\n", head)
		names := slices.SortedFunc(maps.Keys(rows), func(a, b string) int {
			if d := rows[b] - rows[a]; d != 0 && head != "where the run stood" {
				return d
			}
			return strings.Compare(a, b)
		})
		for _, n := range names {
			fmt.Fprintf(t, "%d\t  %s\n", rows[n], n)
		}
		fmt.Fprintln(t)
	}
	table("where the run stood", r.byStep)
	table("last point met", r.byPoint)
	table("before or behind which commit", r.byCommit)
	if err := t.Flush(); err != nil {
		return err
	}
	if r.races > 0 {
		fmt.Fprintf(w, "races %d, each driven by one process at a time; in %d a second was refused by the name of the driver, %d times\n", r.races, r.refused, r.waited)
	}
	fmt.Fprintf(w, "kills %d in %d runs, %d calls settled by a person, seed %d\n", r.kills, r.trials, r.settled, seed)
	fmt.Fprintf(w, "lost %d, duplicated %d, charged twice %d, differences %d\n", r.damage.lost, r.damage.doubled, r.damage.charged, len(r.failures))
	for _, f := range r.failures {
		fmt.Fprintf(w, "\n%s\n", f)
	}
	return nil
}

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The tests use their own binary as the worker, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := workerMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sampleSteps do everything of the script once.
const sampleSteps = 11

func sample(t *testing.T, shapes ...profile) *campaign {
	t.Helper()
	if testing.Short() {
		t.Skip("kills processes for some seconds, which -short leaves out")
	}
	c, err := newCampaign(t.Context(), shapes, sampleSteps, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *campaign) check(t *testing.T, kills int) {
	t.Helper()
	if c.report.kills < kills {
		t.Errorf("only %d processes were killed, want %d", c.report.kills, kills)
	}
	if c.report.damage != (damage{}) || len(c.report.failures) > 0 {
		t.Errorf("lost, duplicated, charged twice: %+v\n%s", c.report.damage, strings.Join(c.report.failures, "\n"))
	}
}

func TestARunKilledAtRandomLosesNothingAndRepeatsNothing(t *testing.T) {
	c := sample(t, profiles...)
	if err := c.random(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	c.check(t, 6)
}

// Each of these once made a difference, or is the narrowest place there is.
func TestARunKilledAtANarrowPlaceGoesOnAsIfNothingHadBeen(t *testing.T) {
	for _, tc := range []struct {
		name  string
		shape profile
		point string
		times []int
	}{
		{"behind an effect and before its record", oneShot, "note is done", []int{1}},
		{"before an effect that is announced", oneShot, "note begins", []int{1}},
		{"within a step that changes a file twice", oneShot, "insert step", []int{9}},
		{"behind a verdict of the gate and before what follows from it", oneShot, "event gate", []int{1, sampleSteps}},
		{"while a turn is answered", session, "insert provider call", []int{1}},
		{"behind an approved effect and before its record", approval, "note is done", []int{1}},
		{"behind an approved write and before its record", approval, "mark performed", []int{2}},
		{"between an approval and its effect", approval, "approval given", []int{1}},
		{"behind an approved effect of a turn", pausing, "note is done", []int{1}},
		{"between the record of a command and its start", handles, "committed: start handle", []int{1}},
		{"behind the start of a command", handles, "event tool_call", []int{5}},
		{"before the end of a command is recorded", handles, "end handle", []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := sample(t, tc.shape)
			var trials []planned
			for _, n := range tc.times {
				trials = append(trials, at(tc.shape, tc.point, n))
			}
			if err := c.list(t.Context(), trials); err != nil {
				t.Fatal(err)
			}
			c.check(t, len(tc.times))
		})
	}
}

func TestOfSeveralProcessesOneDrives(t *testing.T) {
	c := sample(t, oneShot)
	if err := c.race(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	c.check(t, 2)
	if c.report.refused == 0 {
		t.Error("no second driver was refused by name")
	}
}

func TestTheReportSaysAtWhichCommitAProcessDied(t *testing.T) {
	r := newReport()
	r.kill(oneShot, 0, "commit: start run")
	r.kill(oneShot, 3, "committed: commit step")
	r.kill(oneShot, 3, "committed: commit step")
	r.kill(session, 12, "insert step")
	r.races, r.refused, r.waited = 4, 3, 9
	var b strings.Builder
	if err := r.write(&b, 1); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1  commit: start run", "2  committed: commit step", "3  a commit", "1  insert step", "in 3 a second was refused by the name of the driver, 9 times"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestADifferenceIsFound(t *testing.T) {
	c := sample(t, oneShot)
	want := c.undisturbed[oneShot]
	got := *want
	got.steps = append(got.steps[:len(got.steps):len(got.steps)], len(got.steps))
	got.tokens++
	got.ledger = map[string][]string{"7/0": {"6", "6"}}
	got.parts = append([]part{{"files", "nothing"}}, got.parts...)
	d, diffs := want.compare(&got)
	if d.doubled < 2 || d.lost == 0 || d.charged != 1 || len(diffs) < 3 {
		t.Errorf("compare = %+v, %q", d, diffs)
	}
}

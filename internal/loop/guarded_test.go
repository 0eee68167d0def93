//go:build unix

package loop

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func TestAChangeOfAPlaceThatIsRunLaterIsPreventedOrNoticed(t *testing.T) {
	for _, tc := range []struct{ name, line, path string }{
		{"a hook that does not exist yet", "mkdir -p .git/hooks && printf 'echo owned' > .git/hooks/pre-commit", ".git/hooks/pre-commit"},
		{"the settings of a nested repository", "mkdir -p vendor/lib/.git && printf '[core]' >> vendor/lib/.git/config", "vendor/lib/.git/config"},
		{"the library's own configuration", "printf 'x' > io.toml", "io.toml"},
	} {
		for how, turns := range map[string][]scripted.Turn{
			"exec":              {command("sh", "-c", tc.line)},
			"shell":             {shellCall("sh -c \"" + tc.line + "\"")},
			"shell, two stages": {shellCall("echo x | sh -c \"" + tc.line + "\"; true")},
			"left running":      {startCall("sh -c \"" + tc.line + "; printf x > over; sleep 60\""), until("over")},
			"ended by itself":   {startCall("sh -c \"" + tc.line + "\""), pollCall(1), command("sleep", "0.3")},
		} {
			t.Run(tc.name+"/"+how, func(t *testing.T) {
				f := newFixture(t)
				f.write(".git/HEAD", "ref: refs/heads/main\n")
				m := f.script(append(turns, scripted.Say("done"))...)
				res := f.must(trace.Finished)
				if f.read(tc.path) == "" {
					return // this host prevents it
				}
				events, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
				if err != nil {
					t.Fatal(err)
				}
				found := false
				for _, e := range events {
					found = found || e.Kind == "protected" && e.Detail == tc.path
				}
				if !found {
					t.Errorf("the change of %s is not on record: %+v", tc.path, events)
				}
				var told string
				for _, req := range m.Requests() {
					told += req.User
				}
				contains(t, "what the model is told", told, "[protected places]", tc.path)
			})
		}
	}
}

// What is left running when the run ends is looked after as well.
func TestAChangeByACommandThatTheEndOfTheRunKillsIsNoticed(t *testing.T) {
	f := newFixture(t)
	f.script(startCall("sh -c \"while [ ! -e go ]; do sleep 0.01; done; printf x > io.toml; printf x > over; sleep 60\""),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			f.write("go", "")
			for f.read("over") == "" && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			return scripted.Say("done")(ctx, req)
		})
	res := f.must(trace.Finished)
	if f.read("io.toml") == "" {
		return // this host prevents it
	}
	events, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
	if err != nil || !slices.ContainsFunc(events, func(e store.SandboxEvent) bool { return e.Kind == "protected" && e.Detail == "io.toml" }) {
		t.Errorf("the change is not on record: %+v, %v", events, err)
	}
}

func TestAWorkspaceThatIsTooLargeToBeLookedThroughIsSaidOnce(t *testing.T) {
	f := newFixture(t)
	log := f.logged()
	d, err := newDrive(t.Context(), f.host.withDefaults(), f.contract())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.start(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.guarded.look = func() ([]string, bool) { return nil, true }
	for range 2 {
		d.guarded.begin()
		d.noticeGuarded(1)
	}
	if err := d.lease.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := store.Collect(f.store.SandboxEvents(t.Context(), d.runID()))
	if err != nil || len(events) != 1 || events[0].Kind != "watch_partial" || strings.Count(log.String(), "more directories than are looked through") != 1 {
		t.Errorf("rows %+v, %v; log %s", events, err, log)
	}
	if err := d.lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

const words = "über die Straße — naïve 🙂 words that stream"

func TestWhatStreamsIsTheAnswer(t *testing.T) {
	f := newFixture(t, scripted.Say(words))
	turn := f.turn(f.open(), "hi", session.WithObserver(f.seen))
	if f.seen.text() != words || turn.Reply != words {
		t.Errorf("streamed %q, replied %q", f.seen.text(), turn.Reply)
	}
	kinds := slices.Compact(f.seen.kinds())
	if diff := cmp.Diff([]string{"started", "prompt_composed", "contained", "token", "finished", "answered"}, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestWhoStreams(t *testing.T) {
	for _, tc := range []struct {
		name    string
		opts    []session.Option
		streams bool
	}{
		{"nobody watches", nil, false},
		{"somebody watches", []session.Option{session.WithObserver(&events{})}, true},
		{"somebody watches and wants no stream", []session.Option{session.WithObserver(&events{}), session.WithStreaming(false)}, false},
		{"nobody watches and a stream is wanted", []session.Option{session.WithStreaming(true)}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := &sinkWatcher{Model: scripted.New(scripted.Say("hi"))}
			f.cfg.Provider = m
			f.turn(f.open(), "hi", tc.opts...)
			if m.streamed != tc.streams {
				t.Errorf("streamed: %t", m.streamed)
			}
		})
	}
}

type sinkWatcher struct {
	*scripted.Model
	streamed bool
}

func (m *sinkWatcher) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	m.streamed = on.Token != nil
	return m.Model.Complete(ctx, req, on)
}

func TestAOneShotRunNeverStreams(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	f.cfg.Observer = f.seen
	if _, err := f.harness().Run(ctx, task.New("say done", f.dir)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"started", "prompt_composed", "contained", "step", "finished"}, f.seen.kinds()); diff != "" {
		t.Error(diff)
	}
}

func TestARetryStreamsAgain(t *testing.T) {
	f := newFixture(t)
	f.cfg.Provider = &breaking{}
	c := task.Contract{Retry: provider.RetryPolicy{Base: time.Nanosecond, Max: time.Nanosecond}}
	turn := f.turn(f.open(), "hi", session.WithObserver(f.seen), session.WithContract(c))
	if f.seen.count("retry") != 1 || f.seen.text() != turn.Reply || turn.Reply != "the whole answer" {
		t.Errorf("streamed %q behind the retry, replied %q; events %v", f.seen.text(), turn.Reply, f.seen.kinds())
	}
}

// What the next of a chain says stands apart from what the one before it did not come
// to say, whether it streams or not.
func TestAFalloverStreamsAgain(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		f := newFixture(t)
		last := named("second", scripted.Say(words))
		last.Quiet = quiet
		chain, err := fallback.New(&breaking{}, named("down", scripted.FailKind(provider.Server, "down")), last)
		if err != nil {
			t.Fatal(err)
		}
		f.cfg.Provider = chain
		turn := f.turn(f.open(), "hi", session.WithObserver(f.seen))
		var behind, before strings.Builder
		var to []string
		for _, ev := range f.seen.all {
			switch fact := ev.Fact.(type) {
			case trace.FellBackTo:
				to = append(to, fact.Provider)
				before.WriteString(behind.String())
				behind.Reset()
			case trace.Token:
				behind.WriteString(fact.Text)
			}
		}
		if before.String() != "the whole " || behind.String() != words || turn.Reply != words {
			t.Errorf("quiet %t: streamed %q and then %q, replied %q", quiet, before.String(), behind.String(), turn.Reply)
		}
		if diff := cmp.Diff([]string{"down", "second"}, to); diff != "" {
			t.Errorf("quiet %t: fell back to\n%s", quiet, diff)
		}
	}
}

func named(label string, turn scripted.Turn) *scripted.Model {
	m := scripted.New(turn)
	m.Label = label
	return m
}

// breaking breaks off in the middle of its first answer.
type breaking struct{ n int }

func (*breaking) Name() string        { return "breaking" }
func (*breaking) Endpoints() []string { return nil }

func (m *breaking) Complete(_ context.Context, _ *provider.Request, on provider.Sink) (*provider.Response, error) {
	m.n++
	on.Token("the whole ")
	if m.n == 1 {
		return nil, &provider.Error{Kind: provider.Transport, Message: "broken"}
	}
	on.Token("answer")
	return &provider.Response{Text: "the whole answer", FinishReason: "stop"}, nil
}

func TestASlowWatcherLosesNothingAndHoldsUpNoWire(t *testing.T) {
	f := newFixture(t)
	release := make(chan struct{})
	flood := &flooding{n: 5000, sent: func() { close(release) }}
	f.cfg.Provider = flood
	got := 0
	watch := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if ev.Kind() == "token" {
			if got++; got == 1 {
				<-release // the provider must get through without this watcher
			}
		}
		return trace.Continue
	})
	f.turn(f.open(), "hi", session.WithObserver(watch))
	if got != flood.n {
		t.Errorf("%d of %d deltas", got, flood.n)
	}
}

type flooding struct {
	n    int
	sent func()
}

func (*flooding) Name() string        { return "flooding" }
func (*flooding) Endpoints() []string { return nil }

func (m *flooding) Complete(_ context.Context, _ *provider.Request, on provider.Sink) (*provider.Response, error) {
	for range m.n {
		on.Token("x")
	}
	m.sent()
	return &provider.Response{Text: strings.Repeat("x", m.n), FinishReason: "stop"}, nil
}

func TestATurnIsReadEventByEvent(t *testing.T) {
	f := newFixture(t, write("a.txt", "a"), scripted.Say(words))
	f.cfg.Observer = f.seen
	st := f.open().Stream(ctx, "write it")
	var kinds []string
	for ev, err := range st.Events() {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, ev.Kind())
	}
	turn, err := st.Turn()
	if err != nil || turn.Reply != words {
		t.Fatalf("%+v, %v", turn, err)
	}
	if diff := cmp.Diff(f.seen.kinds(), kinds); diff != "" {
		t.Errorf("the session's observer and the iterator differ:\n%s", diff)
	}
	for range st.Events() {
		t.Error("a turn is driven once")
	}
}

func TestAnObserverThatPanicsDoesNotEndTheStream(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"))
	told := 0
	f.cfg.Observer = trace.ObserverFunc(func(trace.Event) trace.Flow {
		told++
		panic("at the disco")
	})
	var last string
	for ev, err := range f.open().Stream(ctx, "hi").Events() {
		if err != nil {
			t.Fatal(err)
		}
		last = ev.Kind()
	}
	if last != "answered" || told != 1 {
		t.Errorf("the last event read is %q, and the observer was told %d", last, told)
	}
}

func TestATurnWithoutAReaderIsDrivenByItsResult(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"))
	if turn, err := f.open().Stream(ctx, "hi").Turn(); err != nil || turn.Reply != "hi" {
		t.Errorf("%+v, %v", turn, err)
	}
}

func TestAnErrorComesLast(t *testing.T) {
	f := newFixture(t, scripted.FailKind(provider.Auth, "no"))
	st := f.open().Stream(ctx, "hi")
	var last error
	for ev, err := range st.Events() {
		if last != nil {
			t.Errorf("%s after the error", ev.Kind())
		}
		last = err
	}
	if te := turnError(t, last); te.Outcome != trace.EscalatedTerminal {
		t.Errorf("%+v", te)
	}
	if _, err := st.Turn(); !errors.Is(err, provider.Auth) {
		t.Errorf("%v", err)
	}
}

func TestLeavingTheLoopStopsTheTurnAndKeepsItsRun(t *testing.T) {
	f := newFixture(t, read("a"), scripted.Say("done"))
	s := f.open()
	st := s.Stream(ctx, "look")
	for ev, err := range st.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind() == "step" {
			break
		}
	}
	_, err := st.Turn()
	te := turnError(t, err)
	if !errors.Is(err, context.Canceled) || s.Head() != 0 {
		t.Fatalf("%v with head %d", err, s.Head())
	}
	if back, err := s.ResumeTurn(ctx, te.Turn); err != nil || back.Reply != "done" {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestAPanicInTheLoopBodyWaitsForTheTurn(t *testing.T) {
	f := newFixture(t, scripted.Say("hi"))
	s := f.open()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		for range s.Stream(ctx, "hi").Events() {
			panic("the reader's own")
		}
	}()
	if turn, err := s.Turn(ctx, "hi"); err != nil || turn.Reply != "hi" {
		t.Errorf("the handle is of no more use: %v", err)
	}
}

func TestAStreamThatIsBeingReadHasNoResultYet(t *testing.T) {
	f := newFixture(t, scripted.Say("done"))
	st := f.open().Stream(ctx, "hi")
	for range st.Events() {
		if turn, err := st.Turn(); turn != nil || !errors.Is(err, session.ErrTurnInProgress) {
			t.Fatalf("%+v, %v", turn, err)
		}
		for range st.Events() {
			t.Fatal("an event came twice")
		}
	}
	if turn, err := st.Turn(); err != nil || turn.Reply != "done" {
		t.Errorf("%+v, %v", turn, err)
	}
}

// Whoever watches a turn that is read event by event may end it, as any other turn.
func TestAnObserverEndsATurnThatIsStreamed(t *testing.T) {
	f := newFixture(t, read("a"), read("b"), scripted.Say("never said"))
	stop := trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		if _, ok := ev.Fact.(trace.StepCommitted); ok {
			return trace.Cancel
		}
		return trace.Continue
	})
	st := f.open().Stream(t.Context(), "look", session.WithObserver(stop))
	for _, err := range st.Events() {
		if err != nil {
			t.Fatal(err)
		}
	}
	turn, err := st.Turn()
	if err != nil || turn.Outcome.Kind != trace.Cancelled || turn.Outcome.Steps != 1 {
		t.Errorf("%+v, %v", turn, err)
	}
}

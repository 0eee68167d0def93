package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
)

func TestMain(m *testing.M) {
	if os.Getenv("CHAT_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// screen collects what is shown, and lets a test wait for it.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
	grew chan struct{}
}

func newScreen() *screen { return &screen{grew: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	select {
	case s.grew <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until text is shown after what was shown at from, and says where.
func (s *screen) await(t *testing.T, from int, text string) int {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		if i := strings.Index(s.String()[from:], text); i >= 0 {
			return from + i + len(text)
		}
		select {
		case <-s.grew:
		case <-limit:
			t.Fatalf("%q is not shown:\n%s", text, s.String())
		}
	}
}

// start talks with a model through pipes.
func start(t *testing.T, prov provider.Provider) (in io.WriteCloser, out *screen, interrupts chan os.Signal, ended chan error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	s, err := open(context.Background(), prov, st, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	out, interrupts, ended = newScreen(), make(chan os.Signal, 1), make(chan error, 1)
	go func() { ended <- newChat(s, out).talk(context.Background(), lines(r), interrupts) }()
	t.Cleanup(func() { w.Close() })
	return w, out, interrupts, ended
}

func say(t *testing.T, w io.Writer, line string) {
	t.Helper()
	if _, err := io.WriteString(w, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func TestAConversationWithBranches(t *testing.T) {
	in, out, _, ended := start(t, scriptedModel())
	at := out.await(t, 0, "> ")
	say(t, in, "hello")
	at = out.await(t, at, "You said: hello")
	at = out.await(t, at, "[turn 1: finished")
	say(t, in, "look around")
	at = out.await(t, at, "I looked; the listing has")
	at = out.await(t, at, "[turn 2: finished")
	say(t, in, "/branch 1")
	at = out.await(t, at, "follows turn 1")
	say(t, in, "again")
	at = out.await(t, at, "[turn 3: finished")
	say(t, in, "/history")
	at = out.await(t, at, `3  "again" -> "You said: again"`)
	if strings.Contains(out.String()[:at], `2  "look around"`) {
		t.Error("the turn that was left behind is on the path")
	}
	say(t, in, "/branch 99")
	at = out.await(t, at, "not found")
	say(t, in, "/branch x")
	out.await(t, at, "needs the number")
	say(t, in, "/quit")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWhatIsTypedWhileItWorksReachesIt(t *testing.T) {
	reached, typed := make(chan struct{}), make(chan struct{})
	base := scriptedModel()
	first := true
	prov := scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if first {
			first = false
			close(reached)
			<-typed
		}
		return base.Complete(ctx, req, provider.Sink{})
	})
	in, out, _, ended := start(t, prov)
	at := out.await(t, 0, "> ")
	say(t, in, "look around")
	<-reached
	say(t, in, "mind the gap")
	say(t, in, "") // the first line has been read once this one is taken
	close(typed)
	at = out.await(t, at, "And yes: mind the gap")
	out.await(t, at, "finished")
	in.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnInterruptStopsTheTurnAndNotTheProgram(t *testing.T) {
	reached := make(chan struct{}, 1)
	base := scriptedModel()
	prov := scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if strings.Contains(req.User, "wait") && !strings.Contains(req.User, "hello") {
			reached <- struct{}{}
		}
		return base.Complete(ctx, req, provider.Sink{})
	})
	in, out, interrupts, ended := start(t, prov)
	at := out.await(t, 0, "> ")
	interrupts <- os.Interrupt
	at = out.await(t, at, "nothing is running")
	say(t, in, "wait for me")
	<-reached
	interrupts <- os.Interrupt
	at = out.await(t, at, "[turn 1: cancelled")
	say(t, in, "hello")
	out.await(t, at, "You said: hello")
	in.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

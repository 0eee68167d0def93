package record_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/providertest"
	"github.com/initorigin/io-harness-go/provider/record"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

func TestRecorderConformance(t *testing.T) {
	recorded := func(turn scripted.Turn) func(*testing.T) provider.Provider {
		return func(*testing.T) provider.Provider { return record.New(scripted.Func(turn)) }
	}
	providertest.Run(t, providertest.Suite{
		Text:  recorded(scripted.Say("some words")),
		Calls: recorded(scripted.Calls(scripted.Tool("a", nil), scripted.Tool("b", nil))),
		Hang:  recorded(scripted.Hang()),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{provider.Server: recorded(scripted.FailKind(provider.Server, "x"))},
	})
}

// anything asks the replayer the recorded question whatever it is asked, so
// that the suite's own requests need no recording.
type anything struct {
	*record.Replayer
	as *provider.Request
}

func (a anything) Complete(ctx context.Context, _ *provider.Request, on provider.Sink) (*provider.Response, error) {
	return a.Replayer.Complete(ctx, a.as, on)
}

func TestReplayerConformance(t *testing.T) {
	replayed := func(turn scripted.Turn) func(*testing.T) provider.Provider {
		return func(t *testing.T) provider.Provider {
			q := ask("q")
			rec := record.New(scripted.New(turn))
			if _, err := rec.Complete(context.Background(), q, provider.Sink{}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "r")
			if err := rec.Save(path); err != nil {
				t.Fatal(err)
			}
			rep, err := record.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			return anything{rep, q}
		}
	}
	providertest.Run(t, providertest.Suite{
		Text:  replayed(scripted.Say("some words")),
		Calls: replayed(scripted.Calls(scripted.Tool("a", nil), scripted.Tool("b", nil))),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{
			provider.InvalidRequest: func(t *testing.T) provider.Provider {
				p := replayed(scripted.Say("x"))(t).(anything)
				p.as = ask("never asked")
				return p
			},
		},
	})
}

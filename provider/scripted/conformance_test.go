package scripted_test

import (
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/providertest"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

func repeat(turn scripted.Turn) func(*testing.T) provider.Provider {
	return func(*testing.T) provider.Provider { return scripted.Func(turn) }
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Suite{
		Text:  repeat(scripted.Say("some words to stream")),
		Calls: repeat(scripted.Calls(scripted.Tool("a", nil), scripted.Tool("b", `{"x":1}`))),
		Hang:  repeat(scripted.Hang()),
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{
			provider.Server: repeat(scripted.FailKind(provider.Server, "two\nlines")),
			provider.Auth:   repeat(scripted.FailKind(provider.Auth, "no")),
		},
	})
}

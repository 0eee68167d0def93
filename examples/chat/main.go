// Command chat is a conversation in a terminal: answers stream in, what is typed
// while the agent works corrects it, and Ctrl-C stops the turn and not the
// program.
//
//	/history     the turns so far
//	/branch N    go on from turn N; nothing is deleted
//	/stop        end the running turn once its step is done
//	/quit        leave; the conversation can be taken up with -session
//
// By default a scripted model answers, without any network. A live one is asked
// with -provider and its key in the environment.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/provider/openrouter"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func main() {
	name := flag.String("provider", "scripted", "who answers: scripted, anthropic, openai or openrouter")
	dir := flag.String("dir", ".", "the directory to talk about")
	db := flag.String("store", "", "the file of the store; empty keeps nothing")
	id := flag.Int64("session", 0, "the conversation to take up; 0 begins one")
	flag.Parse()

	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	if err := run(context.Background(), os.Stdin, os.Stdout, interrupts, *name, *dir, *db, *id); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, in io.Reader, out io.Writer, interrupts <-chan os.Signal, name, dir, db string, id int64) error {
	prov, err := newProvider(name)
	if err != nil {
		return err
	}
	if db == "" {
		tmp, err := os.MkdirTemp("", "chat-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		db = filepath.Join(tmp, "runs.db")
	}
	st, err := store.Open(ctx, db)
	if err != nil {
		return err
	}
	defer st.Close()
	s, err := open(ctx, prov, st, dir, trace.SessionID(id))
	if err != nil {
		return err
	}
	return newChat(s, out).talk(ctx, lines(in), interrupts)
}

// open begins a conversation or takes one up. The agent may read; what else it
// tries is refused, since nobody is asked while a line is being typed.
func open(ctx context.Context, prov provider.Provider, st *store.Store, dir string, id trace.SessionID) (*harness.Session, error) {
	h, err := harness.New(harness.Config{Provider: prov, Store: st, Policy: policy.Default()})
	if err != nil {
		return nil, err
	}
	if id != 0 {
		return h.Reopen(ctx, id)
	}
	return h.Open(ctx, dir)
}

func newProvider(name string) (provider.Provider, error) {
	switch name {
	case "scripted":
		return scriptedModel(), nil
	case "anthropic":
		return anthropic.FromEnv()
	case "openai":
		return openai.FromEnv()
	case "openrouter":
		return openrouter.FromEnv()
	}
	return nil, fmt.Errorf("provider %q is not one of scripted, anthropic, openai and openrouter", name)
}

// Command quickstart is the library's main job in one program: a session's turn
// finds and mends a failing test in a small Go repository, inside the boundary
// and durably.
//
// It makes the repository in a temporary directory. By default a scripted model
// does the work, without any network: it reads what the tools really answered
// and reacts to it, while the commands run in the real sandbox of this machine.
// A live model is asked with -provider and -model.
//
// It exits with 0 only if the tests of the repository pass at the end.
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
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
)

func main() {
	name := flag.String("provider", "scripted", "who answers: scripted, or a provider such as openrouter, openai or ollama")
	model := flag.String("model", "", "the provider's model")
	dir := flag.String("dir", "", "directory for the repository and the store; empty makes a temporary one")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *name, *model, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, name, model, dir string) error {
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "quickstart-*"); err != nil {
			return err
		}
	}
	repo, db := filepath.Join(dir, "repo"), filepath.Join(dir, "runs.db")
	if err := writeRepository(repo); err != nil {
		return err
	}
	prov, err := newProvider(name, model)
	if err != nil {
		return err
	}
	turn, st, err := mend(ctx, out, prov, db, repo)
	if st != nil {
		defer st.Close()
	}
	if err != nil {
		return err
	}
	if err := report(ctx, out, st, turn.RunID, turn.Reply, db); err != nil {
		return err
	}
	return judge(ctx, out, repo)
}

// mend is the program of the README: provider, store, policy, session, turn.
func mend(ctx context.Context, out io.Writer, prov provider.Provider, db, repo string) (*harness.Turn, *store.Store, error) {
	st, err := store.Open(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	pol := policy.Default().Layer("app").
		AllowRead("*").AllowWrite("src/*").DenyRead("secrets/*").
		AllowExec("go test*").DenyExec("git push*")
	h, err := harness.New(harness.Config{
		Provider: prov, Store: st, Policy: pol,
		Approver: approve.None, Observer: trace.Printer(out),
	})
	if err != nil {
		return nil, st, err
	}
	s, err := h.Open(ctx, repo)
	if err != nil {
		return nil, st, err
	}
	turn, err := s.Turn(ctx, "The test suite is failing. Find out why and mend it.")
	return turn, st, err
}

// judge runs the repository's tests once more, by ourselves and contained.
func judge(ctx context.Context, out io.Writer, repo string) error {
	profile := sandbox.Profile{Workspace: repo}
	if chain, ok := toolchain.Detect(repo); ok {
		profile, _ = profile.Grant(chain.Caches().Dirs, chain.Caches().Env)
	}
	cmd := sandbox.Cmd{Argv: []string{"go", "test", "./..."}}
	res, err := sandbox.Run(ctx, cmd, profile)
	if err != nil {
		return err
	}
	if !res.Success() {
		return fmt.Errorf("the tests still fail:\n%s", res.Text(4000))
	}
	fmt.Fprintln(out, "\nthe tests pass")
	return nil
}

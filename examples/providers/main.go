// Command providers shows what can be asked and how: a chain of two endpoints of
// which one is down, streaming, prices from a catalogue, a recording, its replay,
// and the same questions asked again. It asks a server of its own on loopback and
// needs no key.
//
//	go run ./examples/providers                  the tour
//	go run ./examples/providers -list            the presets, and what each one needs
//	go run ./examples/providers -again old.json -to new.json -preset groq -model llama-3.3-70b-versatile
//
// The last asks a live endpoint every question of a recording again and says what
// it answers otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/record"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "providers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	flags := flag.NewFlagSet("providers", flag.ContinueOnError)
	flags.SetOutput(out)
	onlyList := flags.Bool("list", false, "list the presets and end")
	from := flags.String("again", "", "recording whose questions are asked again")
	to := flags.String("to", "", "where the new recording goes")
	preset := flags.String("preset", "", "endpoint to ask; its key is read from the environment")
	baseURL := flags.String("base-url", "", "endpoint to ask that needs no key, instead of a preset")
	model := flags.String("model", "", "model to ask")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *onlyList:
		return list(out)
	case *from != "":
		live, err := liveProvider(*preset, *baseURL, *model)
		if err != nil {
			return err
		}
		return again(ctx, out, live, *from, *to)
	}
	return tour(ctx, out)
}

// list writes the table of presets: what to set, and whether it is set.
func list(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "preset\tkey\tbase URL")
	for _, p := range compatible.Presets() {
		key := "none needed"
		if p.KeyName != "" {
			key = p.KeyName + " is not set"
			if os.Getenv(p.KeyName) != "" {
				key = p.KeyName + " is set"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, key, p.BaseURL)
	}
	return w.Flush()
}

func liveProvider(preset, baseURL, model string) (provider.Provider, error) {
	if baseURL != "" {
		return compatible.New(compatible.Config{BaseURL: baseURL, Auth: compatible.AuthNone, Model: model})
	}
	return compatible.FromEnv(preset, model)
}

// again asks live the questions of one recording and saves another.
func again(ctx context.Context, out io.Writer, live provider.Provider, from, to string) error {
	if to == "" {
		return errors.New("-to is missing: say where the new recording goes")
	}
	old, err := record.Open(from)
	if err != nil {
		return err
	}
	rec, changes, err := old.Again(ctx, live, provider.RetryPolicy{})
	if err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Fprintf(out, "question %d was answered %q and is now %q\n", c.Question+1, c.Before.Text, c.After.Text)
		if len(c.Before.Calls)+len(c.After.Calls) > 0 {
			fmt.Fprintln(out, "  its calls differ: a run leaves the recording here, so make that run once more")
		}
	}
	fmt.Fprintf(out, "%d of %d answers changed\n", len(changes), rec.Len())
	return rec.Save(to)
}

func tour(ctx context.Context, out io.Writer) error {
	v, err := startVendor()
	if err != nil {
		return err
	}
	defer v.close()
	down, err := compatible.New(compatible.Config{Name: "first", BaseURL: v.url + "/down/v1", Auth: compatible.AuthNone, Model: "shout-1"})
	if err != nil {
		return err
	}
	up, err := compatible.New(compatible.Config{Name: "second", BaseURL: v.url + "/up/v1", Auth: compatible.AuthNone, Model: "shout-1"})
	if err != nil {
		return err
	}
	chain, err := fallback.New(down, up)
	if err != nil {
		return err
	}

	fmt.Fprintf(out, "asking %s: ", chain.Name())
	rec := record.New(chain)
	question := &provider.Request{User: "good morning"}
	resp, err := rec.Complete(ctx, question, provider.Sink{Token: func(s string) { fmt.Fprint(out, s) }})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s answered, because %s failed: %s\n", resp.ServedBy, resp.Failed[0].Provider, resp.Failed[0].Failure)

	prices, err := up.PriceTable(ctx)
	if err != nil {
		return err
	}
	if cost, priced := prices.CostMicros(resp.Model, *resp.Usage); priced {
		fmt.Fprintf(out, "%d tokens cost %d millionths, by the catalogue of %s\n", resp.Usage.TotalTokens, cost, up.Name())
	}

	_, err = down.Complete(ctx, question, provider.Sink{})
	if e, ok := provider.AsError(err); ok {
		wait, retry := provider.RetryPolicy{}.Wait(1, err)
		fmt.Fprintf(out, "alone, the first is a failure of kind %s; ask again: %v, in %s\n", string(e.Kind), retry, wait)
	}

	dir, err := os.MkdirTemp("", "providers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "recording.json")
	if err := rec.Save(path); err != nil {
		return err
	}
	replay, err := record.Open(path)
	if err != nil {
		return err
	}
	if resp, err = replay.Complete(ctx, question, provider.Sink{}); err != nil {
		return err
	}
	fmt.Fprintf(out, "the recording answers %q without a connection\n", resp.Text)
	fmt.Fprint(out, "asked again: ")
	if err := again(ctx, out, up, path, filepath.Join(dir, "again.json")); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return list(out)
}

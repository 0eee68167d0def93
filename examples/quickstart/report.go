package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// report prints what the run left in the store: nothing of it is remembered by
// this program.
func report(ctx context.Context, out io.Writer, st *store.Store, run trace.RunID, reply, db string) error {
	patch, err := st.Patch(ctx, run)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n--- the diff\n%s\n--- the reply\n%s\n", patch, reply)

	fmt.Fprintln(out, "\n--- refused")
	for r, err := range st.Refusals(ctx, run) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s by rule %q of layer %q\n", r.Act, r.Target, r.Rule, r.Layer)
	}
	fmt.Fprintln(out, "\n--- containment of the commands")
	for e, err := range st.SandboxEvents(ctx, run) {
		if err != nil {
			return err
		}
		if e.Kind == "containment" {
			var applied sandbox.Applied
			if err := json.Unmarshal([]byte(e.Detail), &applied); err != nil {
				return err
			}
			fmt.Fprintln(out, applied)
		}
	}
	sum, err := st.RunSummary(ctx, run)
	if err != nil {
		return err
	}
	if sum != nil {
		fmt.Fprintf(out, "\n--- %s after %d steps and %d tokens\n", sum.Outcome, sum.Steps, sum.Tokens)
	}
	fmt.Fprintf(out, "look into the store: sqlite3 %s 'select step, tokens, decision from steps where run_id = %d'\n", db, run)
	return nil
}

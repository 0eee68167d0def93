package record_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/record"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// Record once against a live provider, serve the file ever after.
func Example() {
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "greeting.json")
	ctx, question := context.Background(), &provider.Request{User: "hello"}

	live := scripted.New(scripted.Say("good morning")) // a real provider, in a real program
	rec := record.New(live)
	_, _ = rec.Complete(ctx, question, provider.Sink{})
	if err := rec.Save(path); err != nil {
		fmt.Println(err)
		return
	}

	replay, err := record.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, _ := replay.Complete(ctx, question, provider.Sink{})
	fmt.Println(resp.Text)
	_, err = replay.Complete(ctx, &provider.Request{User: "goodbye"}, provider.Sink{})
	fmt.Println(err != nil)
	// Output:
	// good morning
	// true
}

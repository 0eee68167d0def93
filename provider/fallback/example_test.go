package fallback_test

import (
	"context"
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// The second provider is asked where the first one's failure may heal.
func Example() {
	down := scripted.New(scripted.FailKind(provider.Server, "overloaded"))
	down.Label = "first"
	up := scripted.New(scripted.Say("here I am"))
	up.Label = "second"

	p, err := fallback.New(down, up)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, _ := p.Complete(context.Background(), &provider.Request{User: "anybody?"}, provider.Sink{})
	fmt.Println(p.Name())
	fmt.Println(resp.Text, "by", resp.ServedBy)
	// Output:
	// first -> second
	// here I am by second
}

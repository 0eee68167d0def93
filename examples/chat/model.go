package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// scriptedModel answers without a network. "look" makes it list the directory,
// "wait" makes it think for a minute, and it repeats anything else.
func scriptedModel() provider.Provider {
	return scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		asked := task(req.User)
		if listing, ok := scripted.LastResult(req, "list_dir"); ok {
			answer := fmt.Sprintf("I looked; the listing has %d lines.", strings.Count(strings.TrimSpace(listing), "\n")+1)
			if said := steered(req.User); said != "" {
				answer += " And yes: " + said
			}
			return scripted.Say(answer)(ctx, req)
		}
		switch {
		case strings.Contains(asked, "look"):
			return scripted.Call("list_dir", nil)(ctx, req)
		case strings.Contains(asked, "wait"):
			return scripted.Say("That was a long thought.").After(time.Minute)(ctx, req)
		}
		return scripted.Say("You said: "+asked)(ctx, req)
	})
}

// task is the first line of what was asked.
func task(user string) string {
	line, _, _ := strings.Cut(strings.TrimPrefix(user, "# Task\n"), "\n")
	return line
}

// steered is the last thing that was said while the agent worked.
func steered(user string) string {
	const mark = "[operator, while you worked]"
	i := strings.LastIndex(user, mark)
	if i < 0 {
		return ""
	}
	_, rest, _ := strings.Cut(user[i:], "\n")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

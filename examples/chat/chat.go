package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// chat is one conversation with one terminal.
type chat struct {
	s     *harness.Session
	out   io.Writer
	watch trace.Observer
}

func newChat(s *harness.Session, out io.Writer) *chat {
	w := &shared{w: out}
	return &chat{s: s, out: w, watch: trace.Printer(w)}
}

// shared lets the turn and the typist write without mixing their lines.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// lines reads r to its end in the background.
func lines(r io.Reader) <-chan string {
	ch := make(chan string)
	go func() {
		defer close(ch)
		for sc := bufio.NewScanner(r); sc.Scan(); {
			ch <- sc.Text()
		}
	}()
	return ch
}

// talk reads line after line until there are no more, or /quit.
func (c *chat) talk(ctx context.Context, typed <-chan string, interrupts <-chan os.Signal) error {
	fmt.Fprintf(c.out, "session %d about %s\n", c.s.ID(), c.s.Root())
	for {
		fmt.Fprint(c.out, "> ")
		select {
		case line, ok := <-typed:
			if !ok || line == "/quit" {
				return nil
			}
			if err := c.answer(ctx, line, typed, interrupts); err != nil {
				return err
			}
		case <-interrupts:
			fmt.Fprintln(c.out, "\nnothing is running; /quit leaves")
		}
	}
}

// answer carries out one line.
func (c *chat) answer(ctx context.Context, line string, typed <-chan string, interrupts <-chan os.Signal) error {
	switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
	case "":
		return nil
	case "/history":
		return c.history(ctx)
	case "/branch":
		id, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		if err != nil {
			fmt.Fprintln(c.out, "/branch needs the number of a turn; /history has them")
			return nil
		}
		if err := c.s.Branch(ctx, trace.TurnID(id)); err != nil {
			fmt.Fprintln(c.out, err)
			return nil
		}
		fmt.Fprintf(c.out, "the next turn follows turn %d\n", id)
		return nil
	}
	return c.turn(ctx, line, typed, interrupts)
}

// turn takes one turn. Whatever is typed meanwhile is said to the agent, and an
// interrupt stops the turn and nothing else.
func (c *chat) turn(ctx context.Context, prompt string, typed <-chan string, interrupts <-chan os.Signal) error {
	steer, in := session.NewSteer()
	type result struct {
		turn *harness.Turn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		t, err := c.s.Turn(ctx, prompt, session.WithSteer(in), session.WithObserver(c.watch))
		done <- result{t, err}
	}()
	for {
		var err error
		select {
		case r := <-done:
			return c.over(ctx, r.turn, r.err)
		case <-interrupts:
			err = steer.Interrupt(session.AtOnce)
		case line, ok := <-typed:
			switch {
			case !ok:
				typed = nil // the end of the input: the turn is still worth its answer
			case line == "/stop":
				err = steer.Interrupt(session.AfterTools)
			default:
				err = steer.Say(line)
			}
		}
		if errors.Is(err, session.ErrTurnEnded) {
			fmt.Fprintln(c.out, "too late: the turn has ended")
		} else if err != nil {
			return err
		}
	}
}

// over shows what a turn came to. A conversation that somebody else moved on, or
// a model that failed, is told and not the end.
func (c *chat) over(ctx context.Context, t *harness.Turn, err error) error {
	if errors.Is(err, store.ErrConflict) {
		fmt.Fprintln(c.out, "the conversation went on elsewhere meanwhile")
		return c.s.Refresh(ctx)
	}
	if err != nil {
		fmt.Fprintln(c.out, err)
		return ctx.Err()
	}
	fmt.Fprintf(c.out, "[turn %d: %s]\n", t.ID, t.Outcome)
	for _, late := range t.Undelivered.Messages {
		fmt.Fprintf(c.out, "not read: %s\n", late)
	}
	return nil
}

// history lists the way to where the conversation stands.
func (c *chat) history(ctx context.Context) error {
	turns, err := c.s.History(ctx)
	if err != nil {
		return err
	}
	if len(turns) == 0 {
		fmt.Fprintln(c.out, "nothing has been said")
	}
	for _, t := range turns {
		fmt.Fprintf(c.out, "%d  %q -> %q\n", t.ID, t.Prompt, t.Reply)
	}
	return nil
}

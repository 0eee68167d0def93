package approve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/initorigin/io-harness-go/policy"
)

var (
	_ Approver       = (*Terminal)(nil)
	_ PlanGate       = (*Terminal)(nil)
	_ BatchResponder = (*Terminal)(nil)
)

// terminalLine bounds an answer in bytes. A longer line is no answer at all: what a
// person types fits, and a file that was piped in by mistake does not.
const terminalLine = 64 << 10

// terminalContent bounds what is printed of a write, in bytes at its head and tail
// together: some forty lines, what a person looks through before saying yes.
const terminalContent = 4 << 10

// Terminal is a person at a text terminal, as approver, plan gate and responder at
// once, so that all three share one input and never talk at the same time. Make it
// with [Stdin]; it is safe for concurrent use.
type Terminal struct {
	src io.Reader // what in reads from
	in  *bufio.Reader
	out io.Writer

	turn chan struct{} // one slot: who has put a token in may talk, and owns what follows

	pending chan typed     // a read that is under way; nil if none
	reading sync.WaitGroup // the goroutine behind pending
}

// typed is one line of input.
type typed struct {
	text string
	err  error
}

// Stdin is a person who reads what is written to w and types lines that come from r.
//
// As an approver it takes y or Y for yes; everything else is a denial, the end of the
// input included, and what was typed is the reason. As a plan gate it takes y, n for
// cancel, and any other text as the correction; an empty line or the end of the input
// leaves the plan undecided. As a responder it takes the line as the answer, or the
// number of an offer for that offer, several numbers where several may be taken; an
// empty line or the end of the input is no answer.
//
// Where r is a terminal itself, as os.Stdin often is, what was typed or pasted before a
// question was shown is thrown away: nobody can have meant it for that question. That
// holds on Linux, macOS and Windows. From a pipe, a file, or any other reader, such as
// one that wraps a terminal, lines are taken in their order, one for each question,
// whenever they were written: a script may answer ahead, and must know what it will be
// asked. Questions that are asked together count as shown together.
//
// One input is to have one Terminal: two would take each other's lines.
//
// It waits as long as the person does. When a question ends otherwise, the read that
// was under way goes on until r yields a line, which is then thrown away, because it
// was typed for a question that is gone.
func Stdin(r io.Reader, w io.Writer) *Terminal {
	return &Terminal{
		src:  r,
		in:   bufio.NewReaderSize(r, terminalLine),
		out:  w,
		turn: make(chan struct{}, 1),
	}
}

// Decide shows the action and takes y for yes.
func (t *Terminal) Decide(ctx context.Context, req Request) (Decision, error) {
	line, err := t.ask(ctx, renderRequest(req)+"\nApprove? [y/N] ")
	switch {
	case ctx.Err() != nil && err != nil:
		return Defer(), ctx.Err()
	case err != nil:
		return Deny(fmt.Sprintf("not approved: nothing could be read from the terminal (%s)", reason(err))), nil
	case strings.EqualFold(line, "y"):
		return Approve(), nil
	case line == "" || strings.EqualFold(line, "n"):
		return Deny("not approved by the person at the terminal"), nil
	}
	return Deny("not approved by the person at the terminal, who wrote: " + line), nil
}

// Review shows the plan and takes a verdict.
func (t *Terminal) Review(ctx context.Context, p Plan) (PlanVerdict, error) {
	line, err := t.ask(ctx, "\nProposed plan:\n"+p.Render()+"\nGo ahead? [y = yes, n = cancel the run, or what to change] ")
	switch {
	case err != nil:
		return PlanVerdict{}, ctx.Err()
	case line == "":
		return PlanVerdict{}, nil
	case strings.EqualFold(line, "y"):
		return Accept(), nil
	case strings.EqualFold(line, "n"):
		return Cancel(), nil
	}
	return Revise(line), nil
}

// Answer shows one question and takes its answer.
func (t *Terminal) Answer(ctx context.Context, q Question) (Reply, error) {
	line, err := t.ask(ctx, "\n"+q.Render()+"\nAnswer: ")
	if err != nil {
		return Reply{}, ctx.Err()
	}
	return q.replyTo(line), nil
}

// AnswerAll shows all questions, then takes one answer after another.
func (t *Terminal) AnswerAll(ctx context.Context, qs []Question) ([]Reply, error) {
	out := make([]Reply, len(qs))
	if err := t.lock(ctx); err != nil {
		return out, err
	}
	defer t.unlock()
	t.discard()
	if _, err := io.WriteString(t.out, "\n"+RenderQuestions(qs)+"\n"); err != nil {
		return out, nil
	}
	for i, q := range qs {
		line, err := t.readLine(ctx, fmt.Sprintf("Answer %d of %d: ", i+1, len(qs)))
		if err != nil {
			return out, ctx.Err()
		}
		out[i] = q.replyTo(line)
	}
	return out, nil
}

// ask holds the terminal for one question and its answer.
func (t *Terminal) ask(ctx context.Context, prompt string) (string, error) {
	if err := t.lock(ctx); err != nil {
		return "", err
	}
	defer t.unlock()
	t.discard()
	return t.readLine(ctx, prompt)
}

// discard throws away what was typed so far, where that can be told. A read that is
// under way for a question that is gone has taken its line, if it was typed: what it
// yields is thrown away by readLine.
func (t *Terminal) discard() {
	c, ok := t.src.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	discarded := false
	if err := raw.Control(func(fd uintptr) { discarded = discardInput(fd) }); err != nil || !discarded || t.pending != nil {
		return
	}
	_, _ = t.in.Discard(t.in.Buffered()) // of more lines in one read, as a terminal in raw mode gives them
}

// lock waits for the terminal, or for ctx: another question may wait for hours.
func (t *Terminal) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Terminal) unlock() { <-t.turn }

// readLine prints the prompt and returns the next line that was typed after it.
func (t *Terminal) readLine(ctx context.Context, prompt string) (string, error) {
	if _, err := io.WriteString(t.out, prompt); err != nil {
		return "", err // a question that nobody saw has no answer
	}
	if f, ok := t.out.(interface{ Flush() error }); ok {
		if err := f.Flush(); err != nil {
			return "", err
		}
	}
	stale := t.pending != nil
	for {
		if t.pending == nil {
			t.start()
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case got := <-t.pending:
			t.pending = nil
			t.reading.Wait()
			if stale && (got.err == nil || errors.Is(got.err, errLineTooLong)) {
				stale = false
				if _, err := io.WriteString(t.out, "(that line was for an earlier question, please answer this one) "); err != nil {
					return "", err
				}
				continue
			}
			return strings.TrimSpace(got.text), got.err
		}
	}
}

// start reads one line in the background. Only one read is ever under way.
func (t *Terminal) start() {
	line := make(chan typed, 1)
	t.pending = line
	t.reading.Go(func() {
		text, err := readTyped(t.in)
		line <- typed{text, err}
	})
}

var errLineTooLong = errors.New("the line is too long")

// readTyped reads one line. The last line may lack its end; one that is too long is
// read to its end and dropped, so that its rest is not the next answer.
func readTyped(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		return "", errLineTooLong
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return string(line), err
}

func reason(err error) string {
	if errors.Is(err, io.EOF) {
		return "end of input"
	}
	return err.Error()
}

// replyTo reads a typed line as an answer to q.
func (q Question) replyTo(line string) Reply {
	if line == "" {
		return Reply{}
	}
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Choices) {
		return Say(q.Choices[n-1].Label)
	}
	if !q.Multiple {
		return Say(line)
	}
	var labels []string
	for _, part := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > len(q.Choices) {
			return Say(line)
		}
		labels = append(labels, q.Choices[n-1].Label)
	}
	return Say(q.AnswerOf(labels...))
}

// renderRequest is what a person needs to see of an action, line by line, escaped.
func renderRequest(req Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe agent wants to %s: %s\n", req.Act, policy.Escape(req.Target))
	if len(req.Argv) > 0 {
		parts := make([]string, len(req.Argv))
		for i, a := range req.Argv {
			parts[i] = strconv.Quote(a)
		}
		fmt.Fprintf(&b, "  arguments: %s\n", policy.Escape(strings.Join(parts, " ")))
	}
	if req.Tool != "" {
		fmt.Fprintf(&b, "  tool: %s\n", policy.Escape(req.Tool))
	}
	if req.Goal != "" {
		fmt.Fprintf(&b, "  goal: %s\n", policy.Escape(req.Goal))
	}
	fmt.Fprintf(&b, "  asked by: %s\n", askedBy(req))
	if req.Content != "" {
		for _, line := range strings.Split(excerpt(req.Content, terminalContent), "\n") {
			fmt.Fprintf(&b, "  | %s\n", policy.Escape(line))
		}
	}
	return b.String()
}

// askedBy says which rule asks.
func askedBy(req Request) string {
	if !req.Matched {
		return "no rule names it, and the default asks"
	}
	return fmt.Sprintf("rule \"%s\" of layer \"%s\"", policy.Escape(req.Rule), policy.Escape(req.Layer))
}

package trace

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Printer returns an observer that writes a live, readable view of a run to w:
// the goal, each step with its calls, refusals and approvals, what streams in,
// and how it ended with tokens and time. It colours only when w is a terminal
// and the environment does not ask for none (NO_COLOR). Control characters of
// what it shows, and those that turn the direction of reading, are taken out, so
// that nothing shown can steer the terminal.
//
// The observer belongs to one run, or to the turns of one session one after
// another.
func Printer(w io.Writer) Observer { return newPrinter(w, isTerminal(w), time.Now) }

func newPrinter(w io.Writer, colour bool, clock func() time.Time) *printer {
	return &printer{w: w, colour: colour, clock: clock}
}

// isTerminal reports whether w is a character device and colour is not
// switched off. A null device is one too, where colour does no harm.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

type printer struct {
	w      io.Writer
	colour bool
	clock  func() time.Time

	started time.Time
	inText  bool // the cursor stands behind streamed text
}

// Colours by meaning; the codes are those of every terminal since the VT100.
const (
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (p *printer) paint(code, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// line writes one line, on a fresh one when text is streaming.
func (p *printer) line(ev Event, format string, args ...any) {
	if p.inText {
		fmt.Fprintln(p.w)
		p.inText = false
	}
	fmt.Fprintf(p.w, "%s"+format+"\n", append([]any{strings.Repeat("  ", ev.Depth)}, args...)...)
}

// shownMax bounds one value on a line: a line of a wide terminal.
const shownMax = 160

// steers reports whether r would move the cursor of a terminal, begin a command to
// it, or turn the direction of what is read.
func steers(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// shown makes a value fit for one line of a terminal.
func shown(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case steers(r):
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > shownMax {
		return string(runes[:shownMax-1]) + "…"
	}
	return s
}

// Observe prints ev.
func (p *printer) Observe(ev Event) Flow {
	switch f := ev.Fact.(type) {
	case Started:
		p.started = p.clock()
		p.line(ev, "%s %s", p.paint(bold, fmt.Sprintf("run %d", ev.RunID)), shown(f.Goal))
	case Contained:
		p.line(ev, "%s", p.paint(dim, fmt.Sprintf("  contained: %s by %s", f.Mode, f.Backend)))
	case Token:
		if !p.inText {
			fmt.Fprint(p.w, "  ")
		}
		p.inText = true
		fmt.Fprint(p.w, strings.Map(func(r rune) rune {
			if r != '\n' && r != '\t' && steers(r) {
				return -1
			}
			return r
		}, f.Text))
	case Retry:
		p.line(ev, "  %s", p.paint(yellow, fmt.Sprintf("retry %d after %s in %s", f.Attempt, f.Failure, time.Duration(f.DelayMS)*time.Millisecond)))
	case FellBackTo:
		p.line(ev, "  %s", p.paint(yellow, "served by "+shown(f.Provider)))
	case Routed:
		to := shown(f.To)
		if to == "" {
			to = "its own model"
		}
		p.line(ev, "  %s", p.paint(yellow, fmt.Sprintf("asks %s from here on: %s", to, shown(f.Why))))
	case ServerToolUsed:
		if f.OK {
			p.line(ev, "  %s", p.paint(dim, fmt.Sprintf("%s of %s used", shown(f.Tool), shown(f.Provider))))
		} else {
			p.line(ev, "  %s", p.paint(red, fmt.Sprintf("%s of %s failed", shown(f.Tool), shown(f.Provider))))
		}
	case Compacted:
		p.line(ev, "  %s", p.paint(dim, fmt.Sprintf("folded through step %d: %d tokens became %d", f.ThroughStep, f.BeforeTokens, f.AfterTokens)))
	case CacheMarked:
		p.line(ev, "  %s", p.paint(dim, fmt.Sprintf("cached through step %d: %d bytes", f.ThroughStep, f.PrefixBytes)))
	case Speculated:
		p.line(ev, "  %s", p.paint(dim, fmt.Sprintf("%d of %d early reads used", f.Used, f.Started)))
	case MemoryWrote:
		p.line(ev, "    %s", p.paint(dim, "keeps a note: "+shown(f.Key)))
	case MemoryForgot:
		p.line(ev, "    %s", p.paint(dim, "forgets a note: "+shown(f.Key)))
	case ToolCalled:
		if f.Target == f.Name {
			p.line(ev, "  %s %s", p.paint(cyan, "→"), shown(f.Name))
		} else {
			p.line(ev, "  %s %s %s", p.paint(cyan, "→"), shown(f.Name), shown(f.Target))
		}
	case RefusedAct:
		why := "the default of the policy"
		if f.Rule != "" || f.Layer != "" {
			why = fmt.Sprintf("rule %q of layer %q", f.Rule, f.Layer)
		}
		p.line(ev, "    %s %s %s: %s", p.paint(red, "refused"), f.Act, shown(f.Target), shown(why))
	case ApprovalRequested:
		p.line(ev, "    %s %s %s?", p.paint(yellow, "asks"), f.Act, shown(f.Target))
	case ApprovalDecided:
		p.line(ev, "    %s %s %s", p.paint(yellow, f.Decision), f.Act, shown(f.Target))
	case QuestionAsked:
		p.line(ev, "    %s %s", p.paint(yellow, "asks"), shown(f.Question))
	case QuestionsAsked:
		for _, q := range f.Questions {
			p.line(ev, "    %s %s", p.paint(yellow, "asks"), shown(q.Question))
		}
	case QuestionAnswered:
		p.line(ev, "    %s %s %s", p.paint(yellow, "answer"), shown(f.Answer), p.paint(dim, "by "+shown(f.By)))
	case PlanProposed:
		p.line(ev, "    %s", p.paint(yellow, "proposes a plan"))
		for i, s := range f.Steps {
			owner := ""
			if s.Agent != "" {
				owner = "[" + shown(s.Agent) + "] "
			}
			p.line(ev, "      %d. %s%s", i+1, owner, shown(s.Intent))
		}
	case PlanDecided:
		p.line(ev, "    %s %s", p.paint(yellow, "plan "+shown(f.Verdict)), p.paint(dim, "by "+shown(f.By)))
	case TodoWrote:
		for _, it := range f.Items {
			mark := map[string]string{"done": "x", "active": ">"}[it.State]
			if mark == "" {
				mark = " "
			}
			p.line(ev, "    [%s] %s", mark, shown(it.Text))
		}
	case Sandboxed:
		if f.Action == "cap_hit" {
			p.line(ev, "    %s", p.paint(red, "a ceiling of the sandbox was hit"))
		}
	case Dialed:
		to := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
		if f.Allowed {
			p.line(ev, "    %s", p.paint(dim, "dialled "+shown(to)))
		} else {
			p.line(ev, "    %s net %s", p.paint(red, "refused"), shown(to))
		}
	case HandleStarted:
		p.line(ev, "    %s %s", p.paint(cyan, fmt.Sprintf("left running %d", f.Handle)), shown(f.Line))
	case HandleKilled:
		p.line(ev, "    %s", p.paint(dim, fmt.Sprintf("ended %d", f.Handle)))
	case HandleExited:
		how := "without an exit code"
		if f.Code != nil {
			how = fmt.Sprintf("with %d", *f.Code)
		}
		p.line(ev, "    %s", p.paint(dim, fmt.Sprintf("%d exited %s", f.Handle, how)))
	case HandleOrphaned:
		p.line(ev, "    %s", p.paint(yellow, fmt.Sprintf("%d was lost: %s", f.Handle, shown(f.Reason))))
	case StepCommitted:
		changed := ""
		if f.Changed {
			changed = p.paint(green, " changed")
		}
		p.line(ev, "  %s %s%s %s", p.paint(bold, fmt.Sprintf("step %d", ev.Step)), shown(f.Decision), changed, p.paint(dim, fmt.Sprintf("(%d tokens)", f.Tokens)))
	case Gated:
		code := red
		if f.Outcome == "passed" {
			code = green
		}
		p.line(ev, "  gate %s %s", f.Phase, p.paint(code, f.Outcome))
	case GateOutput:
		lines := strings.Split(strings.TrimSpace(f.Output), "\n")
		if last := lines[len(lines)-1]; last != "" {
			p.line(ev, "    %s", p.paint(dim, shown(last)))
		}
	case GateWeak:
		p.line(ev, "  %s the gate runs %s, which the run may write", p.paint(yellow, "warning:"), shown(f.Path))
	case Reviewed:
		for _, why := range f.Reasons {
			p.line(ev, "    %s %s", p.paint(dim, "reviewer:"), shown(why))
		}
	case ReviewUnverifiable:
		p.line(ev, "  %s a model may review its own work: %s", p.paint(yellow, "warning:"), shown(f.Why))
	case OutputRejected:
		p.line(ev, "    %s", p.paint(yellow, fmt.Sprintf("answer out of shape, %d left", f.Left)))
		for _, v := range f.Violations {
			p.line(ev, "      %s", p.paint(dim, shown(v)))
		}
	case Replanned:
		p.line(ev, "  %s", p.paint(yellow, "told to change its approach"))
	case Aborted:
		p.line(ev, "%s %s", p.paint(red, "aborted:"), shown(f.ErrorKind))
	case Ended:
		code := green
		if f.Outcome != Success && f.Outcome != Finished {
			code = yellow
		}
		took := ""
		if !p.started.IsZero() {
			took = ", " + p.clock().Sub(p.started).Round(time.Millisecond).String()
		}
		p.line(ev, "%s %s", p.paint(code, string(f.Outcome)), p.paint(dim, fmt.Sprintf("(%d steps, %d tokens%s)", f.Steps, f.Tokens, took)))
	}
	return Continue
}

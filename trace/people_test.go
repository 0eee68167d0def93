package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestPrinterShowsWhatPeopleAreAskedAndSay(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out, false, time.Now)
	for _, f := range []Fact{
		QuestionAsked{QuestionID: 3, Question: "which\x1b[2J port?", Choices: []string{"80"}},
		QuestionsAsked{Questions: []AskedQuestion{{Question: "which colour?"}, {Question: "which size?"}}},
		QuestionAnswered{Answer: "7171\nand no other", By: "attached"},
		PlanProposed{PlanID: 1, Steps: []ProposedStep{{Intent: "look"}, {Intent: "write", Agent: "scribe"}}},
		PlanDecided{Verdict: "revise", By: "gate"},
		TodoWrote{Items: []ListedTodo{{"read", "done"}, {"write", "active"}, {"test", "pending"}}},
	} {
		p.Observe(Event{RunID: 1, Step: 1, Fact: f})
	}
	want := strings.Join([]string{
		"    asks which[2J port?",
		"    asks which colour?",
		"    asks which size?",
		"    answer 7171 and no other by attached",
		"    proposes a plan",
		"      1. look",
		"      2. [scribe] write",
		"    plan revise by gate",
		"    [x] read",
		"    [>] write",
		"    [ ] test",
		"",
	}, "\n")
	if got := out.String(); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
}

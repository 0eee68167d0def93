package loop

import (
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// What a vendor cut, withheld or could not form is no answer: the model is told
// what became of it, by its kind, and asked again. A run never ends as finished on
// one, and never with half a reply.
func TestWhatIsNoAnswerIsToldByItsKind(t *testing.T) {
	billed := provider.Usage{PromptTokens: 1200, TotalTokens: 1200}
	for _, tc := range []struct {
		name  string
		turn  scripted.Turn
		tells string
	}{
		{"half a sentence", scripted.Say("half a sen").Finishing("length"), "[cut]"},
		{"thinking only, cut", scripted.Say("").Thinking("let me think about").Finishing("max_tokens"), "[cut]"},
		{"withheld without a word", scripted.Say("").Finishing("content_filter"), "[withheld]"},
		{"declined", scripted.Say("I will not").Finishing("refusal"), "[declined]"},
		{"a call that could not be formed", scripted.Say("").Finishing("MALFORMED_FUNCTION_CALL").Using(billed), "[malformed call]"},
		{"nothing but usage", scripted.Say("").Finishing("stop").Using(billed), "[empty]"},
	} {
		for _, before := range []int{0, 1} { // as the first of the task, and behind a step that did something
			t.Run(tc.name+map[int]string{0: " at first", 1: " behind work"}[before], func(t *testing.T) {
				f := newFixture(t)
				f.write("a.txt", "x\n")
				var turns []scripted.Turn
				if before == 1 {
					turns = append(turns, readCall("a.txt"))
				}
				m := f.script(append(turns, tc.turn, scripted.Say("a whole answer"))...)
				res := f.must(trace.Finished)
				if res.Reply != "a whole answer" || res.Outcome.Steps != before+2 || len(m.Requests()) != before+2 {
					t.Fatalf("%s after %d requests, reply %q", res.Outcome, len(m.Requests()), res.Reply)
				}
				if told := lastUser(m); strings.Count(told, tc.tells) != 1 {
					t.Errorf("the model is not told of it by %q:\n%s", tc.tells, told)
				}
				if n := f.seen.count("finished"); n != 1 {
					t.Errorf("%d ends were told", n)
				}
			})
		}
	}
	// One that never gets further ends at a bound, and not as finished.
	f := newFixture(t)
	var turns []scripted.Turn
	for range 4 {
		turns = append(turns, scripted.Say("half a sen").Finishing("length"))
	}
	f.script(turns...)
	if res, err := f.run(withSteps(4)); err != nil || res.Outcome.Kind == trace.Finished || res.Reply != "" {
		t.Errorf("%s with the reply %q, %v", res.Outcome, res.Reply, err)
	}
}

package verify

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/policy"
)

func TestAStoredCriterionIsTheOneThatWasStored(t *testing.T) {
	b := newBench(t)
	b.write("run.sh", "#!/bin/sh\n")
	b.write("tests/a", "1")
	for _, c := range []Criterion{
		Command("sh", "-c", "exit 3", ""),
		Command("./run.sh").ExpectExit(-7).Unpinned(),
		b.prepare(Command("./run.sh")),
		b.prepare(Command("./run.sh").Unpinned()),
		b.prepare(Command("no-such-program-here")),
		Contains("a/b", "x\x00y"),
		Contains("caf\xe9", "au\xff"),
		Command("sh", "-c", "printf '\xe9'"),
		Equals("a/b", ""),
		EachCompiles(Rust, "a.rs", "b.rs"),
		Review("r", nil).AllowSelfReview(),
		Review("r", nil).TellModel(),
		Review("r", nil).EveryStep(),
		b.prepare(Protect(Command("./run.sh"), "tests/*")),
		b.prepare(Protect(Command("./run.sh"), "matches-nothing")),
		Protect(Contains("a", "b"), "x"),
		All(Contains("a", "b"), All(Command("true"), Protect(Command("false"), "y"))),
	} {
		stored, err := Marshal(c)
		if err != nil {
			t.Fatalf("%s: %v", c.Describe(), err)
		}
		back, err := Unmarshal(stored)
		if err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		again, err := Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(stored), string(again)); d != "" {
			t.Errorf("after a round trip (-stored +again):\n%s", d)
		}
		if c.Describe() != back.Describe() || c.Phase() != back.Phase() {
			t.Errorf("%s became %q of phase %s", stored, back.Describe(), back.Phase())
		}
	}
}

func TestNoCriterionIsStoredAsNone(t *testing.T) {
	stored, err := Marshal(nil)
	if err != nil || string(stored) != `{"kind":"none"}` {
		t.Fatalf("Marshal(nil) = %s, %v", stored, err)
	}
	if back, err := Unmarshal(stored); back != nil || err != nil {
		t.Errorf("Unmarshal = %v, %v, want nothing", back, err)
	}
}

func TestWhatIsNotUnderstoodIsNeverReadAsNone(t *testing.T) {
	for _, stored := range []string{
		``, `null`, `{}`, `[]`, `{"kind":""}`, `{"kind":"telepathy"}`, `{"kind":"None"}`, `{"kind":"none"} {}`,
		`{"kind":"command"}`, `{"kind":"command","argv":[""]}`, `{"kind":"command","argv":["a"],"shell":true}`,
		`{"kind":"contains","file":"../x"}`, `{"kind":"each_compiles","lang":"rust"}`, `{"kind":"review"}`,
		`{"kind":"protect","globs":["x"]}`, `{"kind":"protect","criteria":[{"kind":"command","argv":["a"]}]}`,
		`{"kind":"protect","globs":["x"],"criteria":[{"kind":"none"}]}`,
		`{"kind":"all"}`, `{"kind":"all","criteria":[{"kind":"none"}]}`, `{"kind":"all","criteria":[{"kind":"x"}]}`,
		`{"kind":"func"}`,
	} {
		if c, err := Unmarshal([]byte(stored)); err == nil || c != nil {
			t.Errorf("Unmarshal(%s) = %v, %v, want an error", stored, c, err)
		}
	}
}

func TestAFunctionMustBeStatedAgainAfterAStore(t *testing.T) {
	c := Func("the ledger balances", func(context.Context, fs.FS) (bool, string, error) { return true, "", nil })
	stored, err := Marshal(All(c))
	if err != nil {
		t.Fatal(err)
	}
	back, err := Unmarshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	var invalid *InvalidError
	if err := back.Validate(); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "the ledger balances") {
		t.Errorf("Validate = %v, want an error that names the check", err)
	}
}

func TestAFunctionJudges(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", "seen")
	b.link("/etc", "out")
	read := func(name string) Criterion {
		return Func("reads "+name, func(_ context.Context, files fs.FS) (bool, string, error) {
			text, err := fs.ReadFile(files, name)
			return string(text) == "seen", "it reads\nsomething else", err
		})
	}
	b.passes(read("a.txt"))
	b.write("b.txt", "other")
	if v := b.fails(read("b.txt"), "it reads something else"); v.Phase != PhaseFunc || !v.TellModel {
		t.Errorf("verdict = %+v, want it told under the phase func", v)
	}
	b.errs(read("missing"))
	b.errs(read("out/passwd"))
	b.errs(Func("panics", func(context.Context, fs.FS) (bool, string, error) { panic("oh") }))
	ctx, cancel := context.WithCancel(context.Background())
	stops := Func("stops", func(context.Context, fs.FS) (bool, string, error) { cancel(); return true, "", nil })
	if v, err := Evaluate(ctx, stops, b.env()); !errors.Is(err, context.Canceled) || v.Passed {
		t.Errorf("verdict = %+v, %v, want the end of the context", v, err)
	}
}

func TestAllHoldsWhenEachDoesAndStopsAtTheFirstThatDoesNot(t *testing.T) {
	b := newBench(t)
	b.write("a.txt", "a")
	asked := 0
	review := Review("r", ReviewerFunc(func(context.Context, ReviewRequest) (ReviewResult, error) {
		asked++
		return ReviewResult{Passed: true}, nil
	}))
	env := b.env()
	env.Changes = changesOf()
	judge := func(c Criterion) (Verdict, error) { return Evaluate(context.Background(), c, env) }

	v, err := judge(All(Contains("a.txt", "a"), Command("true"), review))
	if err != nil || !v.Passed || v.Phase != PhaseReview || asked != 1 {
		t.Errorf("verdict = %+v, %v after %d reviews, want a pass by the last", v, err, asked)
	}
	v, err = judge(All(Contains("a.txt", "a"), Command("false"), review))
	if err != nil || v.Passed || v.Phase != PhaseCommand || asked != 1 {
		t.Errorf("verdict = %+v, %v after %d reviews, want the command's failure and no review bought", v, err, asked)
	}
	v, err = judge(All(Command("no-such-program-here"), review))
	var g *GateError
	if !errors.As(err, &g) || g.Phase != PhaseCommand || v.Phase != PhaseCommand || asked != 1 {
		t.Errorf("verdict = %+v, %v, want the error of the command", v, err)
	}
	for _, c := range []Criterion{All(), All(nil), All(Command())} {
		var invalid *InvalidError
		if _, err := judge(c); !errors.As(err, &invalid) {
			t.Errorf("%v: error = %v, want an *InvalidError", c, err)
		}
	}
	text := All(Contains("a", "b"), Command("go", "vet")).Describe()
	if !strings.Contains(text, "1. The file a") || !strings.Contains(text, "2. This command") {
		t.Errorf("description = %q, want both, numbered", text)
	}
}

func TestNothingCannotBeEvaluated(t *testing.T) {
	v, err := Evaluate(context.Background(), nil, Env{})
	var invalid *InvalidError
	if !errors.As(err, &invalid) || v.Passed || v.Phase != PhaseNone {
		t.Errorf("Evaluate(nil) = %+v, %v, want an *InvalidError", v, err)
	}
	if c, err := Prepare(context.Background(), nil, Env{}); c != nil || err != nil {
		t.Errorf("Prepare(nil) = %v, %v, want nothing", c, err)
	}
}

func TestACriterionDoesNotChangeWithTheSlicesItCameFrom(t *testing.T) {
	argv := []string{"echo", "a"}
	c := Command(argv...)
	globs := []string{"x"}
	p := Protect(c, globs...)
	argv[0], globs[0] = "rm", "y"
	if got := p.Describe(); !strings.Contains(got, "echo a") || !strings.HasSuffix(got, "x") {
		t.Errorf("description = %q, want it as it was made", got)
	}
	other := c.ExpectExit(3)
	if c.Describe() == other.Describe() {
		t.Error("ExpectExit changed the criterion it was called on, or nothing")
	}
}

func TestEmptyFieldsAreNamed(t *testing.T) {
	for field, c := range map[string]Criterion{
		"argv":    Command(),
		"file":    Contains("", "x"),
		"files":   EachCompiles(Rust),
		"lang":    EachCompiles("", "a"),
		"rubric":  Review("\n", nil),
		"name":    Func("", nil),
		"func":    Func("x", nil),
		"all":     All(),
		"protect": Protect(nil, "x"),
	} {
		var invalid *InvalidError
		if err := c.Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("Validate of an empty %s = %v, want that field named", field, err)
		}
	}
	for _, c := range []Criterion{Command("a\x00b"), Command(" "), Protect(Command("true")), Protect(Command("true"), ""), Protect(Command("true"), "\xff"), Protect(Command(), "x")} {
		if c.Validate() == nil {
			t.Errorf("%T is valid", c)
		}
	}
}

func TestTheRefusalOfAGateSaysThatNobodyCanBeAsked(t *testing.T) {
	b := newBench(t)
	b.pol = policy.Default()
	err := b.errs(Command("true"))
	if !strings.Contains(err.Error(), "nobody can be asked") {
		t.Errorf("error = %v, want it to tell asking from forbidding", err)
	}
}

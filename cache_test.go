package harness_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// cached is a run against a vendor of the Messages API that keeps prefixes in
// cache, and what each request had of it.
func cached(t *testing.T, cache *testkit.AnthropicCache, write func(*wired) []testkit.Reply) (*wired, *[]testkit.CacheUse) {
	t.Helper()
	w, uses := wires()[2], new([]testkit.CacheUse)
	strict := w.check
	f := wireTo(t, w)
	script := write(f)
	f.wire.check = func(body string) error {
		if !gjson.Get(body, "tools").Exists() { // for the paragraph of a fold
			f.more(w.say("what was read so far, in a paragraph"))
			return strict(body)
		}
		use, err := cache.Ask(body)
		if err != nil {
			return err
		}
		*uses = append(*uses, use)
		f.more(use.Metered(script[min(len(*uses), len(script))-1]))
		return strict(body)
	}
	return f, uses
}

func hitRate(uses []testkit.CacheUse) float64 {
	var read, prompt int64
	for _, u := range uses {
		read, prompt = read+u.Read, prompt+u.Prompt()
	}
	return float64(read) / float64(prompt)
}

func logUses(t *testing.T, uses []testkit.CacheUse) {
	t.Helper()
	for i, u := range uses {
		t.Logf("call %2d: prompt %5d = %5d read + %5d written + %5d fresh", i+1, u.Prompt(), u.Read, u.Written, u.Fresh)
	}
	t.Logf("hit rate of %d calls: %.3f", len(uses), hitRate(uses))
}

// source is a file of about 4n lines of Go.
func source(name string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "package %s\n", name)
	for i := range n {
		fmt.Fprintf(&b, "\n// F%d adds %d to its argument and returns the sum.\nfunc F%d(n int) int { return n + %d }\n", i, i, i, i)
	}
	return b.String()
}

// sixCalls is a small task as agents do it: look around, read, write, look again.
func sixCalls(f *wired) []testkit.Reply {
	w := f.wire
	f.write("a.go", source("a", 12))
	f.write("b.go", source("b", 12))
	return []testkit.Reply{
		w.call(vcall("t1", "list_dir", map[string]string{})), w.call(vread("t1", "a.go")), w.call(vread("t1", "b.go")),
		w.call(vwrite("t1", "c.go", source("c", 4))), w.call(vread("t1", "c.go")), w.say("c.go is written"),
	}
}

// A run of six calls cannot have more than five sixths of its prompts from a cache
// that was empty before, since each call can read at most what the one before it
// sent. The reference for this shape is 0.677: the system block and nothing else.
func TestMostOfASixCallRunComesFromTheVendorsCache(t *testing.T) {
	cache := new(testkit.AnthropicCache)
	for _, tc := range []struct {
		name  string
		goal  string
		least float64
	}{
		{"an empty cache", "write c.go", 0.78},
		{"another task, while the vendor still keeps what the first one left", "copy the style of a.go into c.go", 0.9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, uses := cached(t, cache, sixCalls)
			res, err := f.run(func(c *task.Contract) { c.Goal = tc.goal })
			f.expect(res, err, trace.Finished, 6)
			logUses(t, *uses)
			if rate := hitRate(*uses); rate < tc.least {
				t.Errorf("hit rate %.3f, want %.2f at the least", rate, tc.least)
			}
			for i, c := range f.calls(res.RunID) {
				if u := (*uses)[i]; c.Usage.CacheReadTokens != u.Read || c.Usage.CacheWriteTokens != u.Written || c.Usage.PromptTokens != u.Prompt() {
					t.Errorf("row %d says %+v, the vendor %+v", i, c.Usage, u)
				}
			}
		})
	}
}

// blocks are the blocks of a request in the order in which the vendor reads them,
// without marks, and how many of them the last mark takes in.
func blocks(body string) (out []string, marked int) {
	add := func(place string, b gjson.Result) {
		text := b.Raw
		if m := b.Get("cache_control"); m.Exists() {
			text = strings.Replace(text, `,"cache_control":`+m.Raw, "", 1)
			marked = len(out) + 1
		}
		out = append(out, place+" "+text)
	}
	for _, part := range []string{"tools", "system"} {
		for _, b := range gjson.Get(body, part).Array() {
			add(part, b)
		}
	}
	for _, m := range gjson.Get(body, "messages").Array() {
		if m.Get("content").Type == gjson.String {
			out = append(out, m.Get("role").Str+` {"type":"text","text":`+m.Get("content").Raw+"}")
			continue
		}
		for _, b := range m.Get("content").Array() {
			add(m.Get("role").Str, b)
		}
	}
	return out, marked
}

// marksHold checks the marks of the requests of a run: on a conversation that only
// grew everything but the instruction at its end, and never what was not sent
// before on one that changed. It returns the requests that changed, from 1.
func marksHold(t *testing.T, f *wired) (changed []int) {
	t.Helper()
	var before []string
	for i, a := range f.vendor.Asked() {
		if !gjson.Get(a.Body, "tools").Exists() {
			continue
		}
		now, marked := blocks(a.Body)
		if n := strings.Count(a.Body, `"cache_control":{"type":"ephemeral"}`); n < 1 || n > 2 {
			t.Errorf("request %d has %d marks", i+1, n)
		}
		common := 0
		for common < len(before) && common < len(now) && before[common] == now[common] {
			common++
		}
		switch grew := common >= len(before)-1; {
		case i < 2: // the first is flat, and with it nothing of a conversation was sent
			if strings.HasPrefix(now[marked-1], "user") {
				t.Errorf("request %d marks more than the system block", i+1)
			}
		case grew && marked != len(now)-1:
			t.Errorf("request %d marks %d of its %d blocks", i+1, marked, len(now))
		case !grew:
			changed = append(changed, i+1)
			if marked > common {
				t.Errorf("request %d marks %d blocks, and only %d were sent before", i+1, marked, common)
			}
		}
		before = now
	}
	return changed
}

func TestThirtyRequestsOfARunShareTheirPrefixToTheByte(t *testing.T) {
	f, uses := cached(t, new(testkit.AnthropicCache), func(f *wired) (script []testkit.Reply) {
		for i := range 29 {
			name := fmt.Sprintf("f%02d.go", i)
			switch i % 3 {
			case 0:
				script = append(script, f.wire.call(vwrite("t1", name, source("p", 2))))
			case 1:
				f.write(name, source("p", 3))
				script = append(script, f.wire.call(vread("t1", name), vcall("t2", "grep", map[string]string{"pattern": fmt.Sprintf("F%d", i)})))
			default:
				script = append(script, f.wire.call(vcall("t1", "find", map[string]string{"glob": fmt.Sprintf("*%d*", i)})))
			}
		}
		return append(script, f.wire.say("done"))
	})
	res, err := f.run(func(c *task.Contract) { c.Budget.Steps = 40 })
	f.expect(res, err, trace.Finished, 30)
	if changed := marksHold(t, f); len(changed) != 0 {
		t.Errorf("requests %v change what was sent before", changed)
	}
	logUses(t, *uses)
	if rate := hitRate(*uses); rate < 0.93 {
		t.Errorf("hit rate %.3f", rate)
	}
	if n := len(facts[trace.CacheMarked](f)); n != 1 {
		t.Errorf("told %d times that the cache is used, want once", n)
	}
}

// Vendors of Chat Completions keep prefixes by themselves: nothing is marked, and
// everything rests on the bytes.
func TestRequestsOfChatCompletionsShareTheirPrefixToTheByte(t *testing.T) {
	for _, w := range wires()[:2] {
		t.Run(w.name, func(t *testing.T) {
			f := wireTo(t, w)
			f.more(sixCalls(f)...)
			res, err := f.run()
			f.expect(res, err, trace.Finished, 6)
			asked := f.vendor.Asked()
			for i := 2; i < len(asked); i++ {
				before, now := asked[i-1].Body, asked[i].Body
				if strings.Contains(now, "cache_control") {
					t.Errorf("request %d is marked", i+1)
				}
				if gjson.Get(before, "tools").Raw != gjson.Get(now, "tools").Raw {
					t.Errorf("request %d changes the tools", i+1)
				}
				was, is := gjson.Get(before, "messages").Array(), gjson.Get(now, "messages").Array()
				for j := range was[:len(was)-1] { // the last is the instruction of that step
					if j >= len(is) || was[j].Raw != is[j].Raw {
						t.Fatalf("request %d changes message %d, which was\n%s", i+1, j, was[j].Raw)
					}
				}
			}
		})
	}
}

func TestAFoldAndAChangedFileWithdrawTheMarkForOneStep(t *testing.T) {
	page := strings.Repeat(strings.Repeat("word ", 12)+"\n", 29)
	f, uses := cached(t, new(testkit.AnthropicCache), func(f *wired) (script []testkit.Reply) {
		for i := range 10 {
			name := fmt.Sprintf("%d.txt", i)
			f.write(name, page)
			script = append(script, f.wire.call(vread("t1", name)))
		}
		// What was read in the step before does not hold any more.
		script = append(script, f.wire.call(vwrite("t1", "9.txt", "other words\n")), f.wire.call(vread("t1", "0.txt")), f.wire.call(vread("t1", "1.txt")))
		return append(script, f.wire.say("done"))
	})
	res, err := f.run(func(c *task.Contract) {
		c.Budget.Steps, c.Context.MaxTokens, c.Compaction.Keep = 40, 4000, 2
	})
	f.expect(res, err, trace.Finished, 14)
	logUses(t, *uses)
	folds := len(facts[trace.Compacted](f))
	if changed := marksHold(t, f); folds == 0 || len(changed) != folds+1 {
		t.Errorf("requests %v changed, with %d folds and one write of what was read", changed, folds)
	}
	if n := len(facts[trace.CacheMarked](f)); n < folds+1 {
		t.Errorf("told %d times that the cache is used, with %d folds", n, folds)
	}
}

package harness_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// wireProcess tells a test binary that it is the second process of a test: what
// it needs to know, as JSON.
const wireProcess = "HARNESS_TEST_WIRE_PROCESS"

type resumed struct {
	URL, DB string
	Run     int64
}

// TestSecondProcessOverTheWire is the body of the second process. It does nothing
// in an ordinary run of the tests.
func TestSecondProcessOverTheWire(t *testing.T) {
	raw := os.Getenv(wireProcess)
	if raw == "" {
		t.Skip("it is started by TestThinkingGoesBackByteForByteFromASecondProcess")
	}
	var in resumed
	if err := json.Unmarshal([]byte(raw), &in); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), in.DB)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	h, err := harness.New(harness.Config{
		Provider: clientOf(t)(anthropic.New(anthropic.Config{BaseURL: in.URL, Key: provider.NewSecret(wireKey), Model: wireModel})),
		Store:    st, Approver: approve.All, Policy: policy.Default().Layer("app").AllowRead("*").AllowWrite("*"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := task.Contract{Effort: provider.EffortHigh}
	res, err := h.Resume(t.Context(), trace.RunID(in.Run), harness.WithContract(c))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("outcome", res.Outcome.Kind, res.Outcome.Steps)
}

// blocksOf are the blocks of one type in the assistant messages of a body, as
// they were sent.
func blocksOf(body, kind string) []string {
	var out []string
	for _, m := range gjson.Get(body, "messages").Array() {
		if m.Get("role").Str != "assistant" {
			continue
		}
		for _, b := range m.Get("content").Array() {
			if b.Get("type").Str == kind {
				out = append(out, b.Raw)
			}
		}
	}
	return out
}

// thinkers is the Messages wire with a vendor that knows which thinking it signed.
func thinkers(signed map[string]string) wire {
	w := wires()[2]
	w.check = func(body string) error { return testkit.CheckAnthropic(body, signed) }
	return w
}

// thought has what a careless round trip through JSON would change.
const thought = "Let me see: <a> & b — 界, \u2028 and \"quotes\"\\n."

func TestThinkingGoesBackByteForByteFromASecondProcess(t *testing.T) {
	f := wireTo(t, thinkers(map[string]string{thought: "SIG/+=1"}), testkit.AnthropicThinkingCall(wireModel, thought, "SIG/+=1", "toolu_1", "read_file", `{"path":"a.txt"}`))
	f.write("a.txt", "alpha\n")
	hard := func(c *task.Contract) { c.Effort = provider.EffortHigh }
	res, err := f.run(hard, func(c *task.Contract) { c.Budget.Steps = 1 })
	f.expect(res, err, trace.StepCapReached, 1)

	f.more(testkit.AnthropicThinkingCall(wireModel, thought, "SIG/+=1", "toolu_1", "list_dir", `{}`), testkit.AnthropicText(wireModel, "done"))
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(resumed{URL: f.vendor.URL, DB: f.db, Run: int64(res.RunID)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondProcessOverTheWire$", "-test.v")
	cmd.Env = append(os.Environ(), wireProcess+"="+string(in))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "outcome finished 3") {
		t.Fatalf("the second process: %v\n%s", err, out)
	}
	asked := f.vendor.Asked()
	if len(asked) != 3 {
		t.Fatalf("%d requests", len(asked))
	}
	for i, a := range asked[1:] {
		blocks := blocksOf(a.Body, "thinking")
		if len(blocks) != i+1 || len(blocksOf(a.Body, "redacted_thinking")) != i+1 {
			t.Fatalf("request %d has %d thinking blocks, want one for each step", i+1, len(blocks))
		}
		for _, b := range blocks {
			if gjson.Get(b, "thinking").Str != thought || gjson.Get(b, "signature").Str != "SIG/+=1" {
				t.Errorf("request %d sends %s", i+1, b)
			}
		}
		if !gjson.Get(a.Body, "thinking").Exists() {
			t.Errorf("request %d does not think any more", i+1)
		}
	}
	if first, second := blocksOf(asked[1].Body, "thinking")[0], blocksOf(asked[2].Body, "thinking")[0]; first != second {
		t.Errorf("the block changed between two requests:\n%s\n%s", first, second)
	}
}

func TestThinkingOfOneModelNeverReachesAnother(t *testing.T) {
	const other = "claude-opus-4"
	f := wireTo(t, thinkers(map[string]string{thought: "SIG"}),
		testkit.AnthropicThinkingCall(wireModel, thought, "SIG", "toolu_1", "read_file", `{"path":"a.txt"}`),
		testkit.AnthropicCalls(other, vwrite("toolu_1", "done.txt", "yes")))
	f.write("a.txt", "alpha\n")
	res, err := f.run(func(c *task.Contract) {
		c.Effort = provider.EffortHigh
		c.Verify = verify.Contains("done.txt", "yes")
		c.Routing.EscalateAfter = task.EscalateAfter{Failures: 1, Model: other}
	})
	f.expect(res, err, trace.Success, 2)
	asked := f.vendor.Asked()
	if got := gjson.Get(asked[1].Body, "model").Str; got != other {
		t.Errorf("the second request names %q", got)
	}
	if blocks := blocksOf(asked[1].Body, "thinking"); len(blocks) != 0 {
		t.Errorf("thinking of %s reaches %s: %v", wireModel, other, blocks)
	}
	if !gjson.Get(asked[0].Body, "thinking").Exists() {
		t.Error("the first request did not ask for thinking: the test shows nothing")
	}
	if models := []string{f.calls(res.RunID)[0].Model, f.calls(res.RunID)[1].Model}; models[0] != wireModel || models[1] != other {
		t.Errorf("rows name %v", models)
	}
}

func TestAFoldedStepTakesItsThinkingWithIt(t *testing.T) {
	signed := map[string]string{}
	f := wireTo(t, thinkers(signed))
	page := strings.Repeat("word ", 400)
	for i := range 5 {
		name := strconv.Itoa(i) + ".txt"
		f.write(name, page)
		mind := fmt.Sprintf("thought %d", i)
		signed[mind] = "SIG" + strconv.Itoa(i)
		f.more(testkit.AnthropicThinkingCall(wireModel, mind, signed[mind], "toolu_1", "read_file", `{"path":"`+name+`"}`))
	}
	f.more(testkit.Status(413, `{"error":{"message":"prompt is too long"}}`), testkit.AnthropicText(wireModel, "five pages were read"), testkit.AnthropicText(wireModel, "done"))
	res, err := f.run(func(c *task.Contract) { c.Effort, c.Compaction.Keep = provider.EffortHigh, 1 })
	f.expect(res, err, trace.Finished, 6)
	asked := f.vendor.Asked()
	summary, after := asked[6].Body, asked[7].Body
	if gjson.Get(summary, "messages.#(role==assistant)").Exists() || strings.Contains(summary, "SIG") {
		t.Errorf("the request for the paragraph carries turns: %s", summary)
	}
	if before := len(blocksOf(asked[5].Body, "thinking")); before != 5 {
		t.Errorf("%d blocks before the fold", before)
	}
	blocks := blocksOf(after, "thinking")
	if len(blocks) != 1 || gjson.Get(blocks[0], "thinking").Str != "thought 4" {
		t.Errorf("blocks after the fold: %v", blocks)
	}
}

func TestARequiredVendorThatIsDownIsNamedOverTheWire(t *testing.T) {
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w)
		f.vendor.Close()
		res, err := f.run(func(c *task.Contract) { c.Routing.RequirePrimary = true })
		var invalid *task.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "Routing.RequirePrimary" || !strings.Contains(err.Error(), w.name) || res.RunID != 0 {
			t.Errorf("run %d, %v", res.RunID, err)
		}
	})
}

package loop

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// camera is a registered tool that brings images.
type camera struct{ images []provider.Media }

func (camera) Spec() tool.Spec {
	return tool.Spec{Name: "probe", Description: "Takes pictures.", Effect: tool.ReadOnly}
}

func (c camera) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Text: "taken", Media: c.images}, nil
}

func picture(t *testing.T, n int) provider.Media {
	t.Helper()
	m, err := provider.Image("image/png", []byte(strings.Repeat("p", n)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// vendorModel is a live client of a fake vendor on loopback.
func vendorModel(t *testing.T, v *testkit.Vendor) provider.Provider {
	t.Helper()
	p, err := compatible.New(compatible.Config{BaseURL: v.URL, Auth: compatible.AuthNone, Model: "m", Transport: v.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestImagesOfAToolRideWhileTheyFitAndTheOthersAreNamed(t *testing.T) {
	full := picture(t, provider.MaxImageBytes)
	over := provider.Media{Type: "image/png", Base64: full.Base64 + "AAAA"}
	for _, tc := range []struct {
		name   string
		own    []provider.Media // of the contract
		images []provider.Media
		ride   int
		says   []string
	}{
		{"five of the largest", nil, []provider.Media{full, full, full, full, full}, 4, []string{"image 5 of 5 not shown", "room for 0"}},
		{"beside the contract's own", []provider.Media{full, full, full}, []provider.Media{full, full, picture(t, 9)}, 4, []string{"image 2 of 3 not shown", "image 3 of 3 not shown"}},
		{"a small one behind one that does not fit", []provider.Media{full, full, full, picture(t, 9)}, []provider.Media{full, picture(t, 9)}, 5, []string{"image 1 of 2 not shown"}},
		{"one that is too large", nil, []provider.Media{over, picture(t, 9)}, 1, []string{"image 1 of 2 not shown", "at most"}},
		{"a type that no model takes", nil, []provider.Media{{Type: "image/tiff", Base64: "AAAA"}}, 0, []string{"image/tiff"}},
		{"no base64", nil, []provider.Media{{Type: "image/png", Base64: "="}, {Type: "image/png", Base64: "not base64!!"}}, 0, []string{"image 1 of 2 not shown", "image 2 of 2 not shown", "base64"}},
		{"thirty that are rubbish", nil, make([]provider.Media, 30), 0, []string{"image 8 of 30 not shown", "22 more images not shown"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			v := testkit.NewVendor(t, testkit.ChatCall("m", "c", "probe", "{}"), testkit.ChatText("m", "I see"))
			f.host.Provider = vendorModel(t, v)
			f.must(trace.Finished, withTools(camera{tc.images}), func(c *task.Contract) { c.Images = tc.own })
			asked := v.Asked()
			if n := strings.Count(asked[0].Body, `"image_url":{`); n != len(tc.own) {
				t.Errorf("the first request has %d images, want %d", n, len(tc.own))
			}
			if n := strings.Count(asked[1].Body, `"image_url":{`); n != tc.ride {
				t.Errorf("the second request has %d images, want %d", n, tc.ride)
			}
			contains(t, "the second request", textOf(asked[1].Body), tc.says...)
		})
	}
}

// textOf is a body without its images, so that a failure can be read.
func textOf(body string) string {
	for {
		at := strings.Index(body, ";base64,")
		if at < 0 {
			return body
		}
		rest := body[at+len(";base64,"):]
		body = body[:at] + rest[strings.IndexByte(rest, '"'):]
	}
}

func TestAnImageOfAToolRidesOneRequestOnly(t *testing.T) {
	f := newFixture(t)
	m := scripted.New(scripted.Call("probe", nil), readCall("a"), scripted.Say("done"))
	f.host.Provider = m
	f.must(trace.Finished, withTools(camera{[]provider.Media{picture(t, 9)}}))
	for i, want := range []int{0, 1, 0} {
		if got := len(m.Requests()[i].Media); got != want {
			t.Errorf("request %d has %d images, want %d", i, got, want)
		}
	}
}

// An image that waits for the next request is nowhere but in this process.
func TestImagesThatNobodySawBeforeAPauseAreSaidToBeMissing(t *testing.T) {
	f := newFixture(t)
	shot := camera{[]provider.Media{picture(t, 9), picture(t, 8)}}
	f.host.Policy, f.host.Approver = open.AskWrite("*").AllowExec("probe"), deferring
	f.host.Provider = scripted.New(scripted.Calls(scripted.Tool("probe", nil), scripted.Tool("write_file", map[string]string{"path": "a.txt", "content": "x"})))
	paused := f.must(trace.AwaitingApproval, withTools(shot))
	// The drive that goes on dies before the model has answered, and so twice.
	box := Resumption{Defaults: task.Contract{Tools: tool.Toolbox{shot}}}
	for i := range 2 {
		r := box
		if i == 0 {
			r.Decision = &Decision{ID: paused.Outcome.RequestID, Decision: approve.Approve()}
		}
		ctx, cancel := context.WithCancel(t.Context())
		f.host.Provider = scripted.New(func(context.Context, *provider.Request) (*provider.Response, error) {
			cancel()
			return nil, context.Canceled
		})
		if _, err := Resume(ctx, f.host, paused.RunID, r); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	m := scripted.New(scripted.Say("done"))
	f.host.Provider = m
	if end, err := f.resume(paused.RunID, box); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if n := strings.Count(lastUser(m), "before you saw 2 images"); n != 1 {
		t.Errorf("the model is told %d times:\n%s", n, lastUser(m))
	}
}

func TestAnImageOfACallThatIsApprovedLaterRides(t *testing.T) {
	f := newFixture(t)
	shot := camera{[]provider.Media{picture(t, 9)}}
	f.host.Policy, f.host.Approver = open.AskExec("probe"), deferring
	f.host.Provider = scripted.New(scripted.Call("probe", nil))
	paused := f.must(trace.AwaitingApproval, withTools(shot))
	m := scripted.New(scripted.Say("done"))
	f.host.Provider = m
	r := approving(paused, approve.Approve())
	r.Defaults = task.Contract{Tools: tool.Toolbox{shot}}
	if end, err := f.resume(paused.RunID, r); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	if n := len(m.Requests()[0].Media); n != 1 {
		t.Errorf("the request has %d images, want 1", n)
	}
	if strings.Contains(lastUser(m), "before you saw") {
		t.Error("the model is told that it misses an image which it has")
	}
}

func TestAnEndpointThatRefusesTheImagesOfAToolIsAskedWithoutThem(t *testing.T) {
	f := newFixture(t)
	v := testkit.NewVendorFunc(t, func(n int, a testkit.Asked) testkit.Reply {
		switch {
		case strings.Contains(a.Body, "image_url"):
			return testkit.Status(http.StatusBadRequest, `{"error":{"message":"this model does not support image input"}}`)
		case n == 0:
			return testkit.ChatCall("m", "c", "probe", "{}")
		case n == 2:
			return testkit.ChatCall("m", "c", "read_file", `{"path":"a"}`)
		}
		return testkit.ChatText("m", "done")
	})
	f.host.Provider = vendorModel(t, v)
	f.must(trace.Finished, quick, withTools(camera{[]provider.Media{picture(t, 9), picture(t, 9)}}))
	asked := v.Asked()
	if len(asked) != 4 {
		t.Fatalf("asked %d times, want 4", len(asked))
	}
	contains(t, "the request behind the refusal", asked[3].Body, "refused 2 images")
}

func TestAnEndpointThatRefusesTheContractsImagesEndsTheRun(t *testing.T) {
	f := newFixture(t)
	v := testkit.NewVendor(t, testkit.Status(http.StatusBadRequest, `{"error":{"message":"this model does not support image input"}}`))
	f.host.Provider = vendorModel(t, v)
	res, err := f.run(quick, func(c *task.Contract) { c.Images = []provider.Media{picture(t, 9)} })
	if res.Outcome.Kind != trace.EscalatedTerminal || err == nil {
		t.Errorf("%s, %v", res.Outcome, err)
	}
}

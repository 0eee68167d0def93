package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/record"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

func ran(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(context.Background(), &out, args); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

func TestTheTour(t *testing.T) {
	out := ran(t)
	for _, want := range []string{
		"asking first -> second: GOOD MORNING", "second answered, because first failed: Server (HTTP 503)", "24 tokens cost 36 millionths",
		"kind Server; ask again: true, in 500ms", `answers "GOOD MORNING" without a connection`, "0 of 1 answers changed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing from:\n%s", want, out)
		}
	}
}

func TestThePresetsSayWhatTheyNeed(t *testing.T) {
	t.Setenv("GROQ_API_KEY", "sk-not-to-be-shown")
	t.Setenv("XAI_API_KEY", "")
	out := ran(t, "-list")
	for _, want := range []string{"GROQ_API_KEY is set", "XAI_API_KEY is not set", "ollama", "none needed", "http://localhost:11434/v1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing from:\n%s", want, out)
		}
	}
	if strings.Contains(out, "sk-not-to-be-shown") {
		t.Error("a key is shown")
	}
}

func TestARecordingIsAskedAgain(t *testing.T) {
	ctx := context.Background()
	rec := record.New(scripted.New(scripted.Say("HELLO"), scripted.Say("bye")))
	for _, q := range []string{"hello", "good bye"} {
		if _, err := rec.Complete(ctx, &provider.Request{User: q}, provider.Sink{}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "old.json"), filepath.Join(dir, "new.json")
	if err := rec.Save(from); err != nil {
		t.Fatal(err)
	}
	v, err := startVendor()
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	out := ran(t, "-again", from, "-to", to, "-base-url", v.url+"/up/v1", "-model", "shout-1")
	if !strings.Contains(out, `question 2 was answered "bye" and is now "GOOD BYE"`) || !strings.Contains(out, "1 of 2 answers changed") {
		t.Errorf("it says:\n%s", out)
	}
	now, err := record.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := now.Complete(ctx, &provider.Request{User: "good bye"}, provider.Sink{})
	if err != nil || resp.Text != "GOOD BYE" || now.ModelHint() != "shout-1" {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	var out bytes.Buffer
	for _, args := range [][]string{
		{"-again", "x.json", "-preset", "nowhere"}, {"-again", "x.json", "-base-url", "http://localhost/v1"}, {"-again", "x.json", "-to", "y", "-base-url", "http://localhost/v1"}, {"-nonsense"},
	} {
		if err := run(context.Background(), &out, args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

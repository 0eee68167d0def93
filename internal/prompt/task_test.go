package prompt

import (
	"strings"
	"testing"
)

func TestTheFrameOfAStep(t *testing.T) {
	work := Task{
		Goal: "Make the parser report the column.", Constraints: []string{"keep the API", "no new module"},
		Criterion: "The command `go test ./...` exits with status 0.", Project: "Go project: build with `go build ./...`.",
	}
	free := Task{Goal: "Say what this project is.", Output: []byte(`{"type":"object"}`)}
	closing := free
	closing.Closing = true
	for name, task := range map[string]Task{"frame_gated": work, "frame_free": free, "frame_closing": closing} {
		f := task.Frame()
		golden(t, name, f.Head+f.Empty+f.Tail)
	}
}

func TestAnOpeningIsTheOperatorsWords(t *testing.T) {
	f := Task{Goal: "hello", Constraints: []string{"c"}, Criterion: "x", Project: "p", Opening: true}.Frame()
	if f.Head != "hello\n" || f.Empty != "" || f.Tail != "" {
		t.Errorf("Frame = %+v, want the words and nothing else", f)
	}
}

func TestClosingChangesTheTailOnly(t *testing.T) {
	a, b := Task{Goal: "g", Output: []byte("{}")}, Task{Goal: "g", Output: []byte("{}"), Closing: true}
	if a.Frame().Head != b.Frame().Head || a.Frame().Tail == b.Frame().Tail {
		t.Error("a closing step must keep the head, which is the cached prefix, and change the tail")
	}
}

func TestAnUngatedTaskSaysWhatEndsIt(t *testing.T) {
	if head := (Task{Goal: "g"}).Frame().Head; !strings.Contains(head, "Nothing checks") || !strings.Contains(head, "without a tool call ends the run") || !strings.Contains(head, "None are stated") {
		t.Errorf("head:\n%s", head)
	}
}

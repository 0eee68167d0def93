package trace

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// Event is one thing that happened in a run. Switch on the type of Fact:
//
//	switch f := ev.Fact.(type) {
//	case trace.ToolCalled:
//		fmt.Println(f.Name, f.Target)
//	case trace.Ended:
//		fmt.Println(f.Outcome)
//	}
//
// A reader must tolerate kinds that it does not know.
type Event struct {
	RunID RunID
	Step  int // 0 for what happens before the first step
	Depth int // 0 for a single run or the root of a tree
	Fact  Fact
}

// Fact is the part of an event that depends on its kind.
type Fact interface {
	// Kind is the event's stored name, such as "tool_call".
	Kind() string
}

// Kind is the event's stored name.
func (e Event) Kind() string {
	if e.Fact == nil {
		return ""
	}
	return e.Fact.Kind()
}

// The facts, in the order in which a run usually meets them.
type (
	// Started opens a drive, before anything else of it.
	Started struct {
		Goal     string `json:"goal"`
		Provider string `json:"provider"`
	}
	// PromptComposed tells of the system block, once for each drive.
	PromptComposed struct {
		Family       string `json:"family"`
		Bytes        int    `json:"bytes"`
		Source       string `json:"source"`
		Boundary     bool   `json:"boundary"`
		Instructions bool   `json:"instructions"`
	}
	// Contained tells how the run's commands are contained, once for each drive, and
	// once for each call that is contained more narrowly. Egress is what its commands
	// reach of the network, as sandbox.EgressScope has it; Scrubbed counts the variables
	// that were taken out of their environment.
	Contained struct {
		Mode     string `json:"mode"`
		Backend  string `json:"backend"`
		Roots    int    `json:"roots"`
		Egress   string `json:"egress"`
		Scrubbed int    `json:"scrubbed"`
	}
	// Token is a piece of the answer as it streams in. Provisional: a retry
	// streams again.
	Token struct {
		Text string `json:"text"`
	}
	// Reasoning is what the model thought, never stored and never sent back as text.
	Reasoning struct {
		Text   string `json:"text"`
		Tokens int64  `json:"tokens"`
	}
	// Retry announces another attempt at a completion after a wait.
	Retry struct {
		Failure string `json:"kind"`
		Attempt int    `json:"attempt"`
		DelayMS int64  `json:"delay_ms"`
	}
	// FellBackTo tells that another member of a fallback chain served the step. Where
	// the answer streams it is told when that member is asked: the tokens before it
	// are of an answer that failed, and the next member may fail as well.
	FellBackTo struct {
		Provider string `json:"provider"`
	}
	// Routed tells that another model is asked from this step on. An empty From or
	// To is the provider's own model; Why states the failures of the gate or the
	// bytes written.
	Routed struct {
		From string `json:"from"`
		To   string `json:"to"`
		Why  string `json:"why"`
	}
	// ServerToolUsed tells of a search or fetch that the provider ran itself.
	ServerToolUsed struct {
		Provider string `json:"provider"`
		Tool     string `json:"tool"`
		OK       bool   `json:"ok"`
	}
	// Compacted tells that a paragraph took the place of the older part of what
	// the model is shown. It is durable before the event.
	Compacted struct {
		ThroughStep  int `json:"through_step"`
		BeforeTokens int `json:"before_tokens"`
		AfterTokens  int `json:"after_tokens"`
	}
	// CacheMarked tells that from here on the vendor's cache is used for what was
	// sent before, through a step that is PrefixBytes into the user text. It grows
	// with the conversation, untold, until a change withdraws it.
	CacheMarked struct {
		ThroughStep int `json:"through_step"`
		PrefixBytes int `json:"prefix_bytes"`
	}
	// Speculated tells of reads that were started while the completion of the
	// step still streamed in.
	Speculated struct {
		Started   int `json:"started"`
		Used      int `json:"used"`
		Discarded int `json:"discarded"`
	}
	// ToolCalled announces a call, before its result is known. Target is cut at 8,192
	// characters.
	ToolCalled struct {
		Name   string `json:"name"`
		Target string `json:"target"`
	}
	// RefusedAct tells that the policy refused; Rule and Layer are empty when a
	// default decided.
	RefusedAct struct {
		Act    string `json:"act"`
		Target string `json:"target"`
		Rule   string `json:"rule"`
		Layer  string `json:"layer"`
	}
	// ApprovalRequested tells that an approver is asked.
	ApprovalRequested struct {
		Act    string `json:"act"`
		Target string `json:"target"`
	}
	// ApprovalDecided tells what the approver said: approve, deny or defer.
	ApprovalDecided struct {
		Act      string `json:"act"`
		Target   string `json:"target"`
		Decision string `json:"decision"`
	}
	// QuestionAsked tells that the model wants to know something, and that a
	// person may answer under the id from now on. Choices are labels; the answer
	// need not be one of them.
	QuestionAsked struct {
		QuestionID QuestionID `json:"question_id"`
		Question   string     `json:"question"`
		Choices    []string   `json:"choices"`
	}
	// QuestionsAsked is QuestionAsked for several questions of one ask.
	QuestionsAsked struct {
		QuestionID QuestionID      `json:"question_id"`
		Questions  []AskedQuestion `json:"questions"`
	}
	// QuestionAnswered tells an answer, once for each question of an ask. By is
	// responder, human (with a resume) or attached (from another process).
	QuestionAnswered struct {
		QuestionID QuestionID `json:"question_id"`
		Answer     string     `json:"answer"`
		By         string     `json:"by"`
	}
	// PlanProposed tells that a plan waits for its verdict.
	PlanProposed struct {
		PlanID PlanID         `json:"plan_id"`
		Steps  []ProposedStep `json:"steps"`
	}
	// PlanDecided tells the verdict: approve, revise or cancel. By is gate, human
	// (with a resume) or attached (from another process).
	PlanDecided struct {
		PlanID  PlanID `json:"plan_id"`
		Verdict string `json:"verdict"`
		By      string `json:"by"`
	}
	// TodoWrote tells the whole list of what the model means to do, as it was
	// stored.
	TodoWrote struct {
		Items []ListedTodo `json:"items"`
	}
	// MemoryWrote tells that a note was kept for later runs. What it says is not
	// told.
	MemoryWrote struct {
		Key string `json:"key"`
	}
	// MemoryForgot tells that a note was taken back.
	MemoryForgot struct {
		Key string `json:"key"`
	}
	// Sandboxed tells of a contained command, or of one line of commands: create
	// and exec when it runs, cap_hit for a ceiling that ended it, destroy when
	// nothing of it is left; and gate_phase_failed where a gate said no.
	Sandboxed struct {
		Action  string `json:"kind"`
		Backend string `json:"backend"`
	}
	// Dialed tells that a command asked the run's proxy for a host, and whether it
	// was let through. It is told at the boundary of a step.
	Dialed struct {
		Host    string `json:"host"`
		Port    uint16 `json:"port"`
		Allowed bool   `json:"allowed"`
	}
	// HandleStarted tells that a command line is left running.
	HandleStarted struct {
		Handle int    `json:"handle"`
		Line   string `json:"line"`
	}
	// HandlePolled tells how many bytes of its output the model was shown.
	HandlePolled struct {
		Handle int `json:"handle"`
		Bytes  int `json:"bytes"`
	}
	// HandleKilled tells that a line that was left running was ended, by the model
	// or with the run.
	HandleKilled struct {
		Handle int `json:"handle"`
	}
	// HandleExited tells that a line that was left running ended by itself. Code is
	// nil where no exit code ended it.
	HandleExited struct {
		Handle int  `json:"handle"`
		Code   *int `json:"code"`
	}
	// HandleOrphaned tells that a line ended with the process that ran it. Nobody
	// signals what it was.
	HandleOrphaned struct {
		Handle int    `json:"handle"`
		Reason string `json:"reason"`
	}
	// StepCommitted follows the transaction of a step.
	StepCommitted struct {
		Decision string `json:"decision"`
		ToolCall string `json:"tool_call"`
		Tokens   int64  `json:"tokens"`
		Changed  bool   `json:"changed"`
	}
	// Gated tells the verdict of a gate: passed, failed or errored.
	Gated struct {
		Phase   string `json:"phase"`
		Outcome string `json:"outcome"`
	}
	// GateOutput tells what a gate's command printed that did not pass, with the
	// middle left out. ExitCode is nil when it did not end by itself.
	GateOutput struct {
		Output   string `json:"output"`
		ExitCode *int   `json:"exit_code"`
	}
	// GateWeak warns, once for each drive, of a file that the gate's command line
	// names, that the run may write and that nothing holds as it was.
	GateWeak struct {
		Path string `json:"path"`
	}
	// Reviewed tells the verdict of a reviewer. One that could not judge has none.
	Reviewed struct {
		Passed  bool     `json:"passed"`
		Reasons []string `json:"reasons"`
	}
	// ReviewUnverifiable warns, once for each drive, that nobody can tell whether
	// a model would review its own work.
	ReviewUnverifiable struct {
		Why string `json:"why"`
	}
	// OutputAccepted tells that an answer has the demanded shape.
	OutputAccepted struct{}
	// OutputRejected tells what is wrong with an answer, and how many more may be
	// given.
	OutputRejected struct {
		Violations []string `json:"violations"`
		Left       int      `json:"left"`
	}
	// Replanned tells that the model was told once to change its approach.
	Replanned struct {
		Window int `json:"window"`
	}
	// StalledOut tells that the run stopped because it repeated itself.
	StalledOut struct{}
	// RecoveryPaused tells that a resume met a call whose end is unknown.
	RecoveryPaused struct {
		AttemptID AttemptID `json:"attempt_id"`
		Tool      string    `json:"tool"`
	}
	// Answered tells that a turn was answered without any work.
	Answered struct {
		TurnID TurnID `json:"turn_id"`
	}
	// RunRewound tells that a run, or a file of it, was put back.
	RunRewound struct {
		Files  int `json:"files"`
		Memory int `json:"memory"`
		Queued int `json:"queued"`
	}
	// StepReverted tells that the changes of one step were taken back.
	StepReverted struct {
		UndidStep int `json:"undid_step"`
		Files     int `json:"files"`
	}
	// Aborted tells that driving ended with an error; the run stays resumable.
	Aborted struct {
		ErrorKind string `json:"error_kind"`
	}
	// Ended closes a drive that reached an outcome.
	Ended struct {
		Outcome OutcomeKind `json:"outcome"`
		Steps   int         `json:"steps"`
		Tokens  int64       `json:"tokens"`
	}
	// UnknownFact is an event of a newer version, kept as it was read.
	UnknownFact struct {
		Name string
		Raw  json.RawMessage
	}
)

// AskedQuestion is one question of several that are asked at once.
type AskedQuestion struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices"`
	Multiple bool     `json:"multiple"`
}

// ProposedStep is one step of a plan; Agent is empty where none is named.
type ProposedStep struct {
	Intent string `json:"intent"`
	Agent  string `json:"agent,omitempty"`
}

// ListedTodo is one item of the model's list; State is pending, active or done.
type ListedTodo struct {
	Text  string `json:"text"`
	State string `json:"state"`
}

// Kind names of the facts.
func (Started) Kind() string            { return "started" }
func (PromptComposed) Kind() string     { return "prompt_composed" }
func (Contained) Kind() string          { return "contained" }
func (Token) Kind() string              { return "token" }
func (Reasoning) Kind() string          { return "reasoning" }
func (Retry) Kind() string              { return "retry" }
func (FellBackTo) Kind() string         { return "fell_back_to" }
func (Routed) Kind() string             { return "routed" }
func (ServerToolUsed) Kind() string     { return "server_tool_used" }
func (Compacted) Kind() string          { return "compacted" }
func (CacheMarked) Kind() string        { return "cache_marked" }
func (Speculated) Kind() string         { return "speculated" }
func (ToolCalled) Kind() string         { return "tool_call" }
func (RefusedAct) Kind() string         { return "refused" }
func (ApprovalRequested) Kind() string  { return "approval_requested" }
func (ApprovalDecided) Kind() string    { return "approval_decided" }
func (QuestionAsked) Kind() string      { return "question_asked" }
func (QuestionsAsked) Kind() string     { return "questions_asked" }
func (QuestionAnswered) Kind() string   { return "question_answered" }
func (PlanProposed) Kind() string       { return "plan_proposed" }
func (PlanDecided) Kind() string        { return "plan_decided" }
func (TodoWrote) Kind() string          { return "todo_wrote" }
func (MemoryWrote) Kind() string        { return "memory_wrote" }
func (MemoryForgot) Kind() string       { return "memory_forgot" }
func (Sandboxed) Kind() string          { return "sandbox" }
func (Dialed) Kind() string             { return "dialed" }
func (HandleStarted) Kind() string      { return "handle_started" }
func (HandlePolled) Kind() string       { return "handle_polled" }
func (HandleKilled) Kind() string       { return "handle_killed" }
func (HandleExited) Kind() string       { return "handle_exited" }
func (HandleOrphaned) Kind() string     { return "handle_orphaned" }
func (StepCommitted) Kind() string      { return "step" }
func (Gated) Kind() string              { return "gate" }
func (GateOutput) Kind() string         { return "gate_output" }
func (GateWeak) Kind() string           { return "gate_weak" }
func (Reviewed) Kind() string           { return "reviewed" }
func (ReviewUnverifiable) Kind() string { return "review_unverifiable" }
func (OutputAccepted) Kind() string     { return "output_accepted" }
func (OutputRejected) Kind() string     { return "output_rejected" }
func (Replanned) Kind() string          { return "replan" }
func (StalledOut) Kind() string         { return "stalled" }
func (RecoveryPaused) Kind() string     { return "recovery_paused" }
func (Answered) Kind() string           { return "answered" }
func (RunRewound) Kind() string         { return "rewound" }
func (StepReverted) Kind() string       { return "reverted" }
func (Aborted) Kind() string            { return "aborted" }
func (Ended) Kind() string              { return "finished" }
func (u UnknownFact) Kind() string      { return u.Name }

// facts lists a zero value of every known kind; event_test.go holds it complete.
var facts = []Fact{
	Started{}, PromptComposed{}, Contained{}, Token{}, Reasoning{}, Retry{}, FellBackTo{}, Routed{}, ServerToolUsed{},
	Compacted{}, CacheMarked{}, Speculated{}, ToolCalled{}, RefusedAct{}, ApprovalRequested{}, ApprovalDecided{},
	QuestionAsked{}, QuestionsAsked{}, QuestionAnswered{}, PlanProposed{}, PlanDecided{}, TodoWrote{}, MemoryWrote{}, MemoryForgot{}, Sandboxed{},
	Dialed{}, HandleStarted{}, HandlePolled{}, HandleKilled{}, HandleExited{}, HandleOrphaned{},
	StepCommitted{}, Gated{}, GateOutput{}, GateWeak{}, Reviewed{}, ReviewUnverifiable{}, OutputAccepted{}, OutputRejected{}, Replanned{}, StalledOut{}, RecoveryPaused{}, Answered{}, RunRewound{}, StepReverted{}, Aborted{}, Ended{},
}

// EventKinds lists the names of all kinds of event, sorted.
func EventKinds() []string {
	kinds := make([]string, len(facts))
	for i, f := range facts {
		kinds[i] = f.Kind()
	}
	slices.Sort(kinds)
	return kinds
}

type envelope struct {
	RunID RunID  `json:"run_id"`
	Step  int    `json:"step"`
	Depth int    `json:"depth"`
	Event string `json:"event"`
}

// MarshalJSON writes one flat object: run_id, step, depth, event, and the
// fact's own fields beside them.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.Fact == nil {
		return nil, fmt.Errorf("trace: event of run %d has no fact", e.RunID)
	}
	if u, ok := e.Fact.(UnknownFact); ok {
		return u.Raw, nil
	}
	head, err := json.Marshal(envelope{e.RunID, e.Step, e.Depth, e.Kind()})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(e.Fact)
	if err != nil {
		return nil, err
	}
	if len(body) <= 2 { // {}
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), body[1:]...), nil
}

// UnmarshalJSON reads what MarshalJSON wrote; a kind that this version does
// not know becomes an UnknownFact.
func (e *Event) UnmarshalJSON(b []byte) error {
	var env envelope
	if err := json.Unmarshal(b, &env); err != nil {
		return fmt.Errorf("trace: event: %w", err)
	}
	*e = Event{RunID: env.RunID, Step: env.Step, Depth: env.Depth}
	for _, f := range facts {
		if f.Kind() != env.Event {
			continue
		}
		v := reflect.New(reflect.TypeOf(f))
		if err := json.Unmarshal(b, v.Interface()); err != nil {
			return fmt.Errorf("trace: event %q: %w", env.Event, err)
		}
		e.Fact = v.Elem().Interface().(Fact)
		return nil
	}
	e.Fact = UnknownFact{Name: env.Event, Raw: slices.Clone(b)}
	return nil
}

// Package harness is the embeddable agent runtime for Go: a program imports it,
// opens a session on a repository and calls Turn. The loop of observing,
// reasoning, acting and checking runs in that program's own process, behind a
// deny-first permission boundary and the sandbox of the operating system, with
// any model provider and a durable trace in one SQLite file. There is no daemon,
// no account and no telemetry.
//
//	prov, err := compatible.FromEnv("ollama", "qwen3-coder")
//	st, err := store.Open(ctx, "runs.db")
//	pol := policy.Default().Layer("app").
//		AllowRead("*").AllowWrite("src/*").DenyRead("secrets/*").
//		AllowExec("go test*").DenyExec("git push*")
//	h, err := harness.New(harness.Config{Provider: prov, Store: st, Policy: pol})
//	s, err := h.Open(ctx, "/path/to/repo")
//	turn, err := s.Turn(ctx, "the test suite is failing; why?")
//	fmt.Println(turn.Reply)
//
// # Work
//
// A turn is an exchange of a conversation, which is durable: [Harness.Reopen]
// goes on with it in another process. [Harness.Run] drives one task outside of
// any conversation. Both are the same loop and take the same [Contract]: what is
// wanted, what it may cost, what proves that it is done, and which tools are
// offered beside the built-in ones. A contract is plain data with useful zero
// values. What it does not bound is bounded by a default: 12 steps, and no limit
// on time or tokens unless one is stated.
//
// # Boundary
//
// Package policy decides on every read, write, command and host, in layers in
// which a deny always wins, and every refusal is in the trace with its rule and
// layer. The files of the workspace are opened through the kernel, so that no
// link leads outside. What it cannot do: a rule about a command line says nothing
// about what an allowed program then does, and a tool that your program registers
// runs in your process and may do what your program may.
//
// # Containment
//
// Every command starts in the strongest sandbox that the host was seen to have,
// with a scrubbed environment, and dies with its run. What applied is probed,
// recorded and told to the model. What it cannot do: reads of files outside of
// the workspace stay open to commands unless the profile denies them, and on
// macOS and Windows less holds, part of it written and not yet verified there.
// docs/sandbox.md has the table.
//
// # People
//
// What the policy marks as "ask" goes to an approver: a person at a terminal,
// your own code, or a second model. Whoever cannot answer now defers, the run
// pauses, and the answer may come later from another process ([Decide],
// [Answer], [Verdict]). An approval never crosses a deny. What it cannot do: it
// asks about acts, one by one, and an approver who agrees to everything is no
// boundary.
//
// # Durability
//
// A step is one SQLite transaction. A process that is killed at any moment loses
// nothing that was committed, and [Harness.Resume] repeats nothing that was: the
// crash driver in internal/testkit/crash kills runs at random moments and at
// every statement to show it. A call of a tool of yours that was cut off in the
// middle is put to a person ([Recover]) instead of being made again. What it
// cannot do: a built-in command that was cut off is started again, effects
// outside of the workspace are not undone, and one file belongs to one machine.
//
// # Proof
//
// A [Contract] may name what decides that the work is done: the project's own
// command, the text of a file, a second model against a rubric, a schema for the
// answer. The run goes on until it passes or a bound is met, and the model is
// told why it did not. What it cannot do: a gate is as good as its command, and
// without one a run ends when the model says that it is done.
//
// # Watching
//
// An observer sees each event as it happens ([Config].Observer), and any process
// can read the file while a run is driven. Nothing is sent anywhere.
//
// CONTRACT.md says what a dependent may rely on, docs/getting-started.md takes
// the first steps, and docs/rough-edges.md names what is not as it should be.
package harness

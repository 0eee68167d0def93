// Package verify decides whether a run's work is done and whether its answer has
// the demanded shape.
//
// A [Criterion] is the one thing that ends a run as a success: the project's own
// command, the text of a file, a compiler, a second model that reads the change.
// [Prepare] pins what does the judging before the agent can touch it, and
// [Evaluate] judges once. A [Schema] states the shape of a final answer;
// [Schema.Check] reads the answer and says everything that is wrong with it,
// whatever the model's vendor promised.
//
// The package starts no process, writes no row and asks no approver by itself:
// [Env] brings the policy, the sandbox and the run's changes. It does not decide
// when a gate is evaluated, nor what a verdict means for the run.
package verify

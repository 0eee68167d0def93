// Package approve is where a person, or whoever stands in for one, meets a run.
//
// Three questions reach people, and no answer crosses from one to another:
//
//   - an [Approver] says whether one action that the policy marks "ask" may happen;
//   - a [PlanGate] says whether an approach is right before any work is done;
//   - a [Responder] says what was meant. Its answer is text that the model reads and
//     authorises nothing.
//
// Nothing that the policy denies gets here, so no answer can allow it. Who cannot
// answer now says so by the zero value: the run then pauses, and the answer may come
// later from another process. The package does not wait, store or retry; the run loop
// does.
package approve

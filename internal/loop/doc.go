// Package loop drives a run: observe, reason, act, check, stop. It is the only
// code in the module that does. A one-shot task, a turn of a session and every
// resume are the same drive with other data.
//
// Its files follow a step: drive.go enters and leaves a drive, observe.go
// decides what the model is shown, reason.go asks the model, act.go and
// pipeline.go run what it asked for, gate.go asks the policy and the approver,
// check.go judges the work, stop.go ends it.
package loop

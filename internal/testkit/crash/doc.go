// Command crash proves that a killed run loses nothing and repeats nothing. It
// drives a scripted run in a second process, ends that process with SIGKILL at
// random moments or at every labelled statement of the store, resumes the run in
// a new process until it has ended, and compares all that it left behind with an
// undisturbed run of the same script: the trace byte for byte, the spent tokens,
// the files, and a ledger outside the library in which every effect of a tool
// leaves a line.
//
//	go run ./internal/testkit/crash -kills 200
//	go run ./internal/testkit/crash -points
//	go run ./internal/testkit/crash -effects
//	go run ./internal/testkit/crash -races 100
//
// The runs are of several shapes: one that a gate ends, a conversation, each of
// them with pauses for a person, and one that leaves commands running. A command
// dies with its process, so that of the last what it came to is compared, and not
// its words. The report says behind which step and at which commit the kills fell,
// and how often a second driver was refused, by whose name.
//
// It exits with status 1 when anything differs, and prints the difference and
// the seed that leads to it.
package main

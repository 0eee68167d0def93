// Package workspace is the one door of a run to the files of its directory: a
// file system rooted at one place, whose every method asks the run's policy and
// never leaves the root, whatever links or races another process prepares.
//
// It reads text, and says what a file is when it is not text. It replaces files
// atomically, remembers what the run has read so that a whole-file write cannot
// bury somebody else's change, and reports every write to a [Journal], which is
// what makes it possible to undo one.
//
// It refuses what the policy denies. What the policy asks about is for the
// caller to have settled before. It is no sandbox: it guards what this process
// does to files, not what a command does that the process starts. A hard link
// that another program made to a denied file is a name of its own, and reading
// it is not noticed.
package workspace

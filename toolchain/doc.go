// Package toolchain knows, for fourteen kinds of project, by which file they are
// recognised and which commands they conventionally answer to.
//
// A row informs: the model is told the commands, and a sandboxed command gets
// the caches that they write. It grants nothing and runs nothing.
package toolchain

// Package provider is the seam between a run and a model: one interface that
// turns a Request into a Response, the typed failures it may return, the waits
// between attempts, and what a call cost.
//
// The sub-packages anthropic, openai, openrouter and compatible speak to
// vendors; fallback makes one provider of several; record keeps completions in
// a file and serves them again; scripted is a model made of Go functions, for
// tests; providertest is the conformance suite that every provider should run.
//
// The package decides nothing about a run: it does not retry, it does not
// choose what to send, and it does not judge what came back. Those are the
// caller's, because they must be recorded where the run is recorded.
package provider

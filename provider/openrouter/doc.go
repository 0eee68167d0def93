// Package openrouter asks the OpenRouter gateway, which reaches most vendors
// with one key: streaming, effort, cache marks, web search, and reasoning that
// goes back to models that want it.
//
// Attribution headers are not sent.
package openrouter

// Package openai asks OpenAI's Chat Completions API: streaming, effort,
// structured answers, and web search on the models that have it.
//
// It does not speak the Responses API. Endpoints that imitate this one have
// package compatible.
package openai

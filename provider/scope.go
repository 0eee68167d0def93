package provider

import "context"

type scopeKey struct{}

// WithScope says on whose behalf a provider is asked, usually the id of a run.
// A provider that keeps a place in a script or a recording keeps one for each
// scope, so that agents asking at the same time do not move each other's.
func WithScope(ctx context.Context, scope string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope)
}

// Scope returns what WithScope set, or "".
func Scope(ctx context.Context) string {
	s, _ := ctx.Value(scopeKey{}).(string)
	return s
}

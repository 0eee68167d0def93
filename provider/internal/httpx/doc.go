// Package httpx is the one HTTP client of the providers: no redirects, a
// deadline for each attempt, bounded reading, typed failures, and no credential
// in any of them. It knows server-sent events and no vendor.
package httpx

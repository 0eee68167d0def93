// Package fallback makes one provider of several: the first is asked, and the
// next only where asking another can help.
//
// It is for an outage of a vendor, not for choosing models: a request that one
// vendor refuses is refused, and a wrong key is reported.
package fallback

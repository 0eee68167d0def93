// Package providertest is the conformance suite for implementations of
// provider.Provider. A provider of your own passes it before a run may rely on
// it; those of this module run it too.
//
// It asks what a provider can do, never which one it is. It does not judge
// whether a vendor's wire is spoken well: that needs the vendor's own fixtures.
package providertest

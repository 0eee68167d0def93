// Package compatible speaks to every endpoint that imitates Chat Completions:
// hosted vendors, gateways, and servers on the own machine. Presets name the
// usual ones; New takes any base URL.
//
// It is one wire for all. What a vendor does differently is a row of data in
// the preset table, never a branch for its name. Vendors with a wire of their
// own have their own package.
package compatible

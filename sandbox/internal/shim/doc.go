// Package shim is what the executable of the host program becomes when the
// namespaces rung starts it again: the first process of a fresh set of
// namespaces, which arranges the mounts, gives up every privilege, starts the
// command and collects the dead.
//
// It acts during the initialisation of the program, before main, and only when
// it finds the token that the parent sent it over a socket. Its imports are few
// on purpose: Go initialises a package as soon as its imports are ready, so
// this one runs before the packages of the host program that do more. It is no
// place for decisions; the parent makes them all and sends them as data.
package shim

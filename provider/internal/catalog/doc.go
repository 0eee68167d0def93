// Package catalog reads the lists of models that vendors publish. A price is
// read by its digits, never through a floating-point number, and one that makes
// no sense leaves the model unpriced instead of free.
package catalog

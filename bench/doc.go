// Package bench measures what the library costs, beside the least that the same
// work could cost on the same machine in the same run. It asserts nothing: a
// benchmark prints a ratio.
//
//	go test -run '^$' -bench . -benchmem ./bench
package bench

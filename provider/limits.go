package provider

// StreamLimits bound what a hostile or broken endpoint can make a client hold of
// one answer. A field that is zero or negative takes its default; an answer over
// a limit is a Malformed error that names it.
type StreamLimits struct {
	Line   int64 // bytes of one line of the stream; by default 8 MiB
	Event  int64 // bytes of the data of one event; by default 16 MiB
	Stream int64 // bytes of the whole answer; by default 64 MiB
}

package store

import (
	"encoding/json"
	"fmt"

	"github.com/initorigin/io-harness-go/trace"
)

// A jsonColumn is what a column that holds JSON, or nothing, was found to hold.
type jsonColumn struct {
	name string
	raw  []byte
}

// legible fails when a column holds something that is no JSON: only damage, or
// another program's hand, can bring that about. It says which row of which run,
// so that a person can look at it. Nobody may act on such a row, since what was
// asked or approved is not known any more. Step is zero for what belongs to a run as
// a whole.
func legible(table string, id int64, run trace.RunID, step int, columns ...jsonColumn) error {
	for _, c := range columns {
		if len(c.raw) > 0 && !json.Valid(c.raw) {
			of := fmt.Sprintf("run %d", run)
			if step > 0 {
				of = fmt.Sprintf("step %d of run %d", step, run)
			}
			return &Error{Kind: KindCorrupt, Op: "read " + table, Err: fmt.Errorf("%s of row %d of %s is no JSON: it belongs to %s", c.name, id, table, of)}
		}
	}
	return nil
}

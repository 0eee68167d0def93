package trace

// Undone says what became of one thing that a rewind was to take back. Its value
// is the stored text.
type Undone string

// The verdicts of a rewind.
const (
	Restored    Undone = "restored"     // a file or a note is what it was before the run
	Removed     Undone = "removed"      // what the run had created is gone
	Applied     Undone = "applied"      // the changes of a step were taken back
	Stale       Undone = "stale"        // later changes are in the way; nothing was touched
	NotKept     Undone = "not_kept"     // what it was is not kept; nothing was touched
	NoHunk      Undone = "no_hunk"      // the change was not kept as text; nothing was touched
	NotRecorded Undone = "not_recorded" // the run never wrote it
	UndoRefused Undone = "refused"      // the policy does not allow it
	UndoFailed  Undone = "failed"       // the file system did not allow it
)

// RewoundItem is one file, note or queued child of a rewind.
type RewoundItem struct {
	Name    string // path, key or goal
	Verdict Undone
	Changed bool   // something is different now
	Detail  string // why, where the verdict says no
}

// Rewound is what a rewind did. The trace of the run stays as it was.
type Rewound struct {
	RunID  RunID
	Step   int           // the step that was undone; zero for a file, several steps or the whole run
	Files  []RewoundItem // in the order of their first write, or of undoing
	Memory []RewoundItem // whole runs only
	Queued []RewoundItem // whole runs only
}

// Clean reports whether every item was taken back.
func (r *Rewound) Clean() bool {
	for _, items := range [][]RewoundItem{r.Files, r.Memory} {
		for _, i := range items {
			switch i.Verdict {
			case Restored, Removed, Applied:
			default:
				return false
			}
		}
	}
	return true
}

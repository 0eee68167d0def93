package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// behaviours are faults that harnesses of this kind are known for, each as what
// holds here, with the tests that show it: package, then name.
//
//	reading and writing
//	  a replacement is data, never a template; quotes are not folded
//	  bytes outside of an edit stay, whatever the line endings and the encoding
//	  a whole-file write that changes line endings or encoding says so
//	  a hard link inside the root is no door out of it
//	  a whole-file write over something unseen is refused, by content
//	  all tools count lines alike
//	  one enormous line stops neither a search nor a checker
//	  modes and inner links survive edits, writes and undoing
//	policy and approval
//	  an allow admits the whole of what would run or nothing
//	  what is too long to be checked is refused, and nobody is asked
//	  no program counts as harmless by its name
//	  one host name has one reading
//	  a link is the same file for every reader
//	  no argument of git is an option, a pathspec or a way out
//	  arguments are decoded once, and mean one thing
//	  an approval is for what was looked at
var behaviours = map[string][]string{
	"a replacement is data":            {"../../workspace TestReplacementIsDataNeverATemplate"},
	"bytes outside of an edit stay":    {"../../workspace TestBytesOutsideTheEditStay", "../../workspace TestWhatIsNotTextIsNotEdited"},
	"changed endings are told":         {"../../workspace TestWriteTellsOfEndingsAndEncoding", ". TestWriteTellsWhatTheModelCannotSee"},
	"a hard link is no door":           {"../../workspace TestHardLinkIsNoDoorOutOfTheRoot", "../loop TestAHardLinkedFileOutsideIsNotReachedByAnUndo", ". TestRedirectsNeverLeaveTheWorkspace"},
	"nothing unseen is buried":         {"../../workspace TestWholeFileWriteOverAnUnseenChangeIsRefused", "../../workspace TestStaleIsAMatterOfContent", ". TestStaleWriteIsAnObservation"},
	"lines are counted alike":          {"../../workspace TestEverythingCountsLinesAlike"},
	"one enormous line":                {"../../workspace TestGrepShowsThePartOfALongLineAroundTheMatch", ". TestOneEnormousRecordOfACheckerIsReadToTheEnd"},
	"modes and inner links survive":    {"../../workspace TestModeSurvivesEveryWrite", "../../workspace TestWriteThroughALinkKeepsTheLink"},
	"an allow is for the whole":        {". TestOneRefusedPartKeepsTheWholeLineFromRunning", "../../policy TestLint"},
	"too long is refused":              {". TestALineThatIsTooLongIsRefusedBeforeAnybodyIsAsked"},
	"no harmless programs":             {"../../policy TestLaunchersAsk", "../../policy TestCommandLines", "../../policy TestLint"},
	"one reading of a host":            {"../../policy TestHosts", "../../policy TestNetTargets", "../../sandbox/proxy TestOnlyOneReadingOfAHost"},
	"a link is the file it leads to":   {"../../workspace TestLinkToADeniedFileIsDeniedLikeTheFile", "../loop TestNothingGetsThroughToWhatIsDenied"},
	"git takes paths and nothing else": {". TestNothingDeniedIsStaged", ". TestEveryCommandLineOfGit", ". TestBranchNames", "../loop TestEveryRefusalOfAToolIsRecorded"},
	"one decoding of arguments":        {"../../tool TestCheckArgs", "../../tool FuzzCheckArgs"},
	"what was looked at":               {"../loop TestAnApprovalIsForWhatWasLookedAt", "../loop TestAnApprovalOfACommandIsBoundToTheScriptItRuns", "../loop TestAnApprovalOfACommitIsForWhatIsStaged"},
}

func TestEveryKnownFaultHasItsTest(t *testing.T) {
	source := map[string]string{}
	for what, tests := range behaviours {
		if len(tests) == 0 {
			t.Errorf("%s: no test", what)
		}
		for _, entry := range tests {
			dir, name, _ := strings.Cut(entry, " ")
			if source[dir] == "" {
				files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
				if err != nil || len(files) == 0 {
					t.Fatalf("%s: %v, %d files", dir, err, len(files))
				}
				for _, f := range files {
					data, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					source[dir] += string(data)
				}
			}
			if !strings.Contains(source[dir], "\nfunc "+name+"(") {
				t.Errorf("%s: there is no %s in %s", what, name, dir)
			}
		}
	}
}

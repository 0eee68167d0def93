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
//	commands
//	  the library's own helpers come from where no command can write
//	  a repository within the repository is guarded like it, and what is not there yet too
//	  a child that holds the pipe does not hold the answer
//	  a host that can do half is used for half, and says so
//	  a credential is not to be read from the parent either
//	  the sockets of other programs are refused, or said to be open
//	  nothing means nothing, and a directory that is worked in is no permission
//	answers of providers
//	  a stream is bytes with a loose grammar
//	  a fragment belongs to its own call
//	  a stream that stops is no answer, nor is a failure inside a success
//	  what was cut, withheld or could not be formed is no answer
//	  thinking goes back untouched or not at all
//	  one broken call spoils no later request
//	  a wait is as long as it was asked to be, within bounds
//	runs
//	  every history is one that vendors take
//	  a fold that gains nothing is not bought again and again
//	  what people said survives folds
//	  an approved effect happens once
//	  nobody is told that the store is busy
var behaviours = map[string][]string{
	"a replacement is data":            {"../../workspace TestReplacementIsDataNeverATemplate"},
	"bytes outside of an edit stay":    {"../../workspace TestBytesOutsideTheEditStay", "../../workspace TestWhatIsNotTextIsNotEdited"},
	"changed endings are told":         {"../../workspace TestWriteTellsOfEndingsAndEncoding", ". TestWriteTellsWhatTheModelCannotSee"},
	"a hard link is no door":           {"../../workspace TestHardLinkIsNoDoorOutOfTheRoot", "../loop TestAHardLinkedFileOutsideIsNotReachedByAnUndo", ". TestRedirectsNeverLeaveTheWorkspace"},
	"nothing unseen is buried":         {"../../workspace TestWholeFileWriteOverAnUnseenChangeIsRefused", "../../workspace TestStaleIsAMatterOfContent", ". TestStaleWriteIsAnObservation"},
	"lines are counted alike":          {"../../workspace TestEverythingCountsLinesAlike"},
	"one enormous line":                {"../../workspace TestGrepShowsThePartOfALongLineAroundTheMatch", ". TestOneEnormousRecordOfACheckerIsReadToTheEnd"},
	"modes and inner links survive":    {"../loop TestModesAndLinksSurviveARunAndItsUndo", "../../workspace TestModeSurvivesEveryWrite", "../../workspace TestWriteThroughALinkKeepsTheLink"},
	"an allow is for the whole":        {". TestOneRefusedPartKeepsTheWholeLineFromRunning", "../../policy TestLint"},
	"too long is refused":              {". TestALineThatIsTooLongIsRefusedBeforeAnybodyIsAsked"},
	"no harmless programs":             {"../loop TestAReadingProgramThatIsToldToWriteLeavesNothingOutside", "../../policy TestLaunchersAsk", "../../policy TestCommandLines", "../../policy TestLint"},
	"one reading of a host":            {"../../policy TestHosts", "../../policy TestNetTargets", "../../sandbox/proxy TestOnlyOneReadingOfAHost"},
	"a link is the file it leads to":   {"../../workspace TestLinkToADeniedFileIsDeniedLikeTheFile", "../loop TestNothingGetsThroughToWhatIsDenied"},
	"git takes paths and nothing else": {". TestNothingDeniedIsStaged", ". TestEveryCommandLineOfGit", ". TestBranchNames", "../loop TestEveryRefusalOfAToolIsRecorded"},
	"one decoding of arguments":        {"../../tool TestCheckArgs", "../../tool FuzzCheckArgs"},
	"what was looked at":               {"../loop TestAnApprovalOfAProgramIsNotForALinkInItsPlace", "../loop TestAnApprovalIsForWhatWasLookedAt", "../loop TestAnApprovalOfACommandIsBoundToTheScriptItRuns", "../loop TestAnApprovalOfACommitIsForWhatIsStaged"},

	"helpers of its own":          {"../../sandbox TestHelpersComeFromPlacesThatCommandsCannotWrite", "../../sandbox TestAWritableDirectoryOnPathIsWithheld", "../../toolchain TestNoCacheLeadsToAProgramOfThePath", ". TestGitIsNotTakenFromWhereTheAgentWrites"},
	"what is run later":           {"../../sandbox TestWatchFindsWhatWouldBeRunLater", "../loop TestAChangeOfAPlaceThatIsRunLaterIsPreventedOrNoticed", "../../workspace TestDefaultPolicyGuardsControlFiles"},
	"a child that holds the pipe": {"../../sandbox TestABackgroundChildDoesNotHoldTheAnswer", "../../sandbox TestASurvivorThatHoldsTheOutputDoesNotHoldTheAnswer", "../../sandbox TestTheWallClockEndsTheWholeTree"},
	"half a host":                 {"../../sandbox TestARulesetThatCannotBeBuiltNeverRunsUnrestricted", "../../sandbox TestALesserHostGetsTheNextRung", "../../sandbox TestAHostThatCanDoNothingStillRunsAndSaysSo", "../../sandbox TestRequireRefusesInsteadOfDegrading"},
	"credentials of the parent":   {"../../sandbox TestSecretsAreNotInTheEnvironment", "../../sandbox TestTheHostProcessIsOutOfReach", "../loop TestNoCommandSeesACredentialUnderAnotherName"},
	"sockets of other programs":   {"../../sandbox TestSocketsOfOtherProgramsAreReportedOrRefused", "../../sandbox TestEgress"},
	"nothing means nothing":       {"../../policy TestEgressQuestions", "../../provider TestWebFilter", ". TestRedirectsNeverLeaveTheWorkspace"},

	"a stream is bytes":       {"../../provider/internal/sse TestGrammar", "../../provider/compatible TestOneAnswerInManyShapes", "../../provider/internal/httpx TestUnaskedCompression", "../../provider/compatible TestDeltasComeBeforeTheEnd"},
	"whose fragment":          {"../../provider/internal/chat TestFragmentsFindTheirCall"},
	"a stream that stops":     {"../../provider/internal/chat TestCutAtEveryEvent", "../../provider/anthropic TestCutAtEveryEvent", "../../provider/openai TestResponsesCutAtEveryEvent", "../.. TestAVendorThatHangsIsEndedByTheTimeOfTheRun", "../../session TestARetryStreamsAgain"},
	"failure inside success":  {"../../provider/internal/chat TestFailuresInsideASuccess", "../../provider/anthropic TestStreamsThatAreNoAnswer", "../../provider/internal/httpx TestDocumentsAreTold", "../.. TestAWrongKeyShowsNowhere"},
	"no ending":               {"../loop TestWhatIsNoAnswerIsToldByItsKind", "../loop TestACompletionThatIsNoEndingDoesNotEndTheRun", "../../provider TestEndings"},
	"thinking goes back":      {"../../provider/anthropic TestThinkingGoesBackUntouched", "../.. TestThinkingGoesBackByteForByteFromASecondProcess", "../.. TestThinkingOfOneModelNeverReachesAnother", "../.. TestAFoldedStepTakesItsThinkingWithIt"},
	"one broken call":         {"../.. TestABrokenCallPoisonsNoLaterRequest", "../../provider/internal/chat TestArgumentsThatAreNoObject"},
	"how long to wait":        {"../../provider/internal/httpx TestRetryAfter", "../../provider TestWaits", "../.. TestAWaitThatIsTooLongEndsTheAttemptsAtOnce", "../.. TestAWaitThatTheVendorAsksForIsKeptAndCanBeCancelled"},
	"a history vendors take":  {"../.. TestAHistoryWithCallsThatWereNotMadeIsTaken", "../../provider/internal/wire TestTranscriptIsRepaired", "../../provider TestEveryConversationPassesStrictServers"},
	"folds that gain nothing": {"../loop TestFoldsThatGainNothingAreBounded", "../loop TestASummaryLongerThanWhatItReplacesIsBoughtOnce", "../loop TestARequestThatOutgrewTheWindowIsMadeSmallerOnce"},
	"words survive folds":     {"../loop TestWhatPeopleDecidedSurvivesFoldsAndAnotherProcess"},
	"an effect happens once":  {"../loop TestEqualCallsAreMadeOnceEachOnTheirOwnYes", "../loop TestTwoResumesAtOnceMakeAnApprovedCallOnce", "../loop TestAnApprovedCallIsCarriedOutOnceAcrossACrash", "../loop TestWhereTheProcessDiedDecidesHowOftenACallIsMade"},
	"nobody is told of busy":  {"../../store TestTwoProcessesWriteBesideAReaderAndCheckpoints", "../../store TestCuttingTheLogBesideAReaderHoldsUpNoWriter", "../../store TestADrivenSessionIsNeitherDeletedNorArchived"},
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

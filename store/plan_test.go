package store

import (
	"database/sql"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

// planOf explains a statement.
func planOf(t *testing.T, db *sql.DB, text string) string {
	t.Helper()
	args := make([]any, 0, 16)
	if i := highestParam(text); i > 0 {
		for range i {
			args = append(args, 1)
		}
	} else {
		for range strings.Count(text, "?") {
			args = append(args, 1)
		}
	}
	rows, err := db.Query(`EXPLAIN QUERY PLAN `+text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		out = append(out, detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// highestParam is the highest numbered parameter of a statement, zero when
// they are not numbered.
func highestParam(text string) int {
	top := 0
	for n := 1; n < 20; n++ {
		if strings.Contains(text, fmt.Sprintf("?%d", n)) {
			top = n
		}
	}
	return top
}

func TestNoHotStatementReadsATableAsAWhole(t *testing.T) {
	s := newFile(t)
	db, err := sql.Open("sqlite", testkit.DSN(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, st := range append([]statement{
		readLease, renewLease, dropLease, rootOf, readRun, advanceRun, nextSeq, reportTokens, foldReport, settleStep, markPerformed, overruleApproval, setOutcome, replySpend,
		readTurnEnd, finishTurn, moveHead, lastDrive, closeDrives, orphanHandle, unreadMail, supersedeContext, openChildren, turnOfRun,
		readObservations, readLedger, ledgerLength, calledTokens, readTurns, readSummaries, readSteps, readPrompts, readTexts, readStepAttempts, dueApprovals, openApprovals, dueAnswers, duePlans, approvedPlan,
		openAttempts, openInTree, accountsAfter, writesAfter, readProviderCalls, readCitations, insertCitation, readServerToolCalls, readPolicyEvents,
		readSandboxEvents, chargeStep, chargeRun, erroredGates, readMCPEvents, readContextEvents, readGateAttempts, lastGate, lastSandboxEvent, readAgentEvents, readMemoryRecalls, insertMemoryRecall, readEdits,
		readSnapshots, hasSnapshot, readDrives, runPolicy, runContract, readSummary, unsettledSpawns, readSpawn, readChildren, readTree, treeAddresses, treeSpend,
		queuedUnder, queuedInTree, unreadMessages, countUnread, postedFinished, allMessages, readHandles, readOutputs, insertOutput, readTodos,
		unreadSaid, lastSaid, takeSaid, readMemory, listMemory, memoryTexts, sizeMemory, evictable, undrawnMemory, countDrawn, memoryDraws, deleteEvidence, eventsSince, treeEventsSince, sessionTurns, turnsUntil, readTurnOfRun,
		waitingRuns, lastEnd, stillRuns, spendCalls, spendTree, gateFailures, contextCount, readRewinds, readItems, sessionSummaries,
		insertApproval, decideApproval, readApproval, allApprovals, decidedAfter, insertDrive, endDrive, reopenRun, replyIsWork, insertEvent, lastEvent,
		insertStepAttempt, insertSandboxEvent, insertMCPEvent, insertContextEvent, insertGateAttempt, insertEdit, insertAgentEvent, putSummary, dropSummary, putOutput,
		forkRun, forkSteps, forkTurns, forkLedger, forkSummaries, forkPlans, forkDrive, ledgerUntil, ledgerSeed, takeHandle, insertHandle, setPIDs, endHandle,
		putWrite, dropWrite, insertAttempt, closeAttempt, readAttempt, insertLease, takeLease, bindLease, insertSummary, insertMessage, markRead, listBoth,
		upsertMemory, keepMemory, deleteMemory, clearMemory, deleteRecalls, pinMemory, readEditedPaths, insertPolicyEvent, insertProviderCall, insertServerToolCall,
		insertQuestion, answerQuestion, keepAnswers, readQuestion, allQuestions, deliverAnswer, insertPlan, decidePlan, readPlan, allPlans, deliverPlan, withdrawQuestions, withdrawPlans, withdrawApprovals,
		enqueue, dequeue, insertRewind, insertItem, finishRewind, markReverted, readKept, restoreMemory, clearQueue, lastStepOf, startedAt, runsBetween, readOutput,
		putMeta, readMeta, insertSession, readSession, readTurn, grantsOf, insertSnapshot, readSnapshot, insertRun, setRoot, readHead, insertTurn, setTurnKind,
		insertStep, insertStepTurn, insertObservation, clearTodos, insertTodo, insertSpawn, setChildRoot, readSpawns, settleSpawn, addressOfChild, providerOf,
		countTurns, archiveSession, archiveRuns, archiveDrives, archivePoints, archiveNotes, readStanding, outlive, insertEvent,
		{"runs of a session", runsOfSessions(oneSession)},
		jsonSet("sessions of one", oneSession),
		runsOfRootSet, measureChosen(), forksOfChosen, deleteSessions,
	}, deleteChosen()...) {
		t.Run(st.name, func(t *testing.T) {
			for _, line := range strings.Split(planOf(t, db, st.sql), "\n") {
				// A partial index that the statement was made for is no table.
				whole := strings.HasPrefix(line, "SCAN ") && !strings.Contains(line, "USING INDEX") && !strings.Contains(line, "USING COVERING INDEX") &&
					!strings.Contains(st.sql, strings.TrimPrefix(line, "SCAN ")+" (id") && // what the statement itself has gathered
					!strings.HasPrefix(line, "SCAN json_each") && // the ids that it was given
					!strings.Contains(line, "CONSTANT ROW") && !strings.Contains(line, "SUBQUERY") && !strings.Contains(line, "(subquery")
				if whole {
					t.Errorf("%s\n%s", line, st.sql)
				}
			}
		})
	}
	// The same eye must see a statement that does.
	if plan := planOf(t, db, `SELECT count(*) FROM steps WHERE changed = ?`); !strings.HasPrefix(plan, "SCAN ") {
		t.Errorf("the control is planned as %q", plan)
	}
	for st, index := range map[*statement]string{
		&treeEventsSince: "run_events_root", &eventsSince: "run_events_run", &waitingRuns: "runs_open",
		&spendCalls: "provider_calls_at", &gateFailures: "sandbox_events_phase", &contextCount: "context_events_kind", &openAttempts: "tool_attempts_open",
		&openInTree: "tool_attempts_open", &unreadMessages: "agent_messages_unread",
	} {
		if plan := planOf(t, db, st.sql); !strings.Contains(plan, index) {
			t.Errorf("%s does not use %s:\n%s", st.name, index, plan)
		}
	}
}

// wholeTables are the statements that may read a table from end to end: figures
// about all runs, which walk an index or one narrow row for each, checks, and what
// SQLite says about itself.
var wholeTables = []statement{
	runsByOutcome, runsByDay, firstTry, resumeCount, failedRuns, readSessions,
	quickCheck, foreignKeyCheck, droppedRows, pageFacts, countAll, tableSizes, liveLeases, readGeneration,
	beginImmediate, commitNow, rollbackNow, synchronousFull, synchronousNorm,
}

func TestEveryStatementIsPlannedOrNamedAsWhole(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	here := map[string]bool{}
	declared := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if name == "plan_test.go" {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					here[id.Name] = true
				}
				return true
			})
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, value := range v.Values {
					if lit, ok := value.(*ast.CompositeLit); ok {
						if id, ok := lit.Type.(*ast.Ident); ok && id.Name == "statement" {
							declared[v.Names[i].Name] = name
						}
					}
				}
			}
		}
	}
	db, err := sql.Open("sqlite", newFile(t).Path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, st := range wholeTables {
		planOf(t, db, st.sql) // is at least a statement
	}
	if len(declared) < 150 {
		t.Fatalf("only %d statements were found", len(declared))
	}
	for name, file := range declared {
		if !here[name] {
			t.Errorf("%s of %s is neither planned nor named as one that reads a whole table", name, file)
		}
	}
}

// What is read page by page must find its rows in order: a sort would read all of
// them for each page, with and without what the store has counted of its tables.
func TestNothingThatIsReadByPagesIsSorted(t *testing.T) {
	s := newFile(t, WithSynchronous(SyncNormal))
	for range 40 {
		sess := newSession(t, s)
		finish(t, s, start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}}), trace.Finished, 0)
	}
	db, err := sql.Open("sqlite", testkit.DSN(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now := time.Now()
	paged := []statement{
		readSessions, readObservations, readTurns, readSteps, readPrompts, readTexts, readStepAttempts, readProviderCalls, readCitations, readServerToolCalls, readPolicyEvents,
		readSandboxEvents, readMCPEvents, readContextEvents, readGateAttempts, readAgentEvents, readEdits, eventsSince, treeEventsSince, readOutputs, readLedger,
	}
	for _, f := range []RunFilter{ // without the open ones, which are few
		{}, {Status: trace.StatusCompleted}, {Root: 1}, {RootsOnly: true}, {Since: now}, {Until: now}, {Since: now, Until: now},
		{Status: trace.StatusFailed, Root: 1, RootsOnly: true, Since: now},
	} {
		paged = append(paged, f.statement())
	}
	for _, counted := range []bool{false, true} {
		if counted {
			if _, err := db.Exec(`ANALYZE`); err != nil {
				t.Fatal(err)
			}
		}
		for _, st := range paged {
			if plan := planOf(t, db, st.sql); strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s, counted %v:\n%s\n%s", st.name, counted, plan, st.sql)
			}
		}
	}
	if plan := planOf(t, db, `SELECT id FROM runs ORDER BY goal LIMIT ?`); !strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("the control is planned as %q", plan)
	}
}

func TestStatementsStayInsideTheSharedSubset(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{"check.go": true, "compact.go": true} // ask SQLite about itself
	read := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || own[name] {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, foreign := range []string{"INSERT OR ", "rowid", "REPLACE INTO", "SELECT *", "GLOB ", "datetime(", "strftime(", "IFNULL("} {
			if strings.Contains(string(text), foreign) {
				t.Errorf("%s speaks %q", name, foreign)
			}
		}
	}
	if read < 30 {
		t.Errorf("only %d files were read", read)
	}
}

package store

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	db, err := sql.Open("sqlite", s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, st := range []statement{
		readLease, renewLease, dropLease, rootOf, readRun, advanceRun, nextSeq, reportTokens, foldReport, settleStep, markPerformed, setOutcome, replySpend,
		readTurnEnd, finishTurn, moveHead, lastDrive, closeDrives, orphanHandle, unreadMail, supersedeContext, openChildren, turnOfRun,
		readObservations, readTurns, readSummaries, readSteps, readTexts, readStepAttempts, dueApprovals, openApprovals, dueAnswers, duePlans, approvedPlan,
		openAttempts, openInTree, accountsAfter, writesAfter, readProviderCalls, readCitations, insertCitation, readServerToolCalls, readPolicyEvents,
		readSandboxEvents, readMCPEvents, readContextEvents, readGateAttempts, lastGate, readAgentEvents, readMemoryRecalls, insertMemoryRecall, readEdits,
		readSnapshots, hasSnapshot, readDrives, runPolicy, runContract, readSummary, unsettledSpawns, readSpawn, readChildren, readTree, treeAddresses, treeSpend,
		queuedUnder, queuedInTree, unreadMessages, countUnread, postedFinished, allMessages, readHandles, readOutputs, insertOutput, readTodos,
		unreadSaid, lastSaid, takeSaid, readMemory, listMemory, sizeOfMemory, evictable, memoryDraws, eventsSince, treeEventsSince, sessionTurns, turnsUntil, readTurnOfRun,
		waitingRuns, lastEnd, stillRuns, spendCalls, spendTree, gateFailures, contextCount, readRewinds, readItems, sessionSummaries,
		{"runs of a session", runsOfSessions(oneSession)},
		measureSQL("measure", runsOfSessions(oneSession), oneSession),
	} {
		t.Run(st.name, func(t *testing.T) {
			for _, line := range strings.Split(planOf(t, db, st.sql), "\n") {
				// A partial index that the statement was made for is no table.
				whole := strings.HasPrefix(line, "SCAN ") && !strings.Contains(line, "USING INDEX") && !strings.Contains(line, "USING COVERING INDEX") &&
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
		&evictable: "memory_recalls_entry", &treeEventsSince: "run_events_root", &eventsSince: "run_events_run", &waitingRuns: "runs_open",
		&spendCalls: "provider_calls_at", &gateFailures: "sandbox_events_phase", &contextCount: "context_events_kind", &openAttempts: "tool_attempts_open",
		&openInTree: "tool_attempts_open", &unreadMessages: "agent_messages_unread",
	} {
		if plan := planOf(t, db, st.sql); !strings.Contains(plan, index) {
			t.Errorf("%s does not use %s:\n%s", st.name, index, plan)
		}
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

package store

// columnClass says what a column holds. Archiving empties words and nothing else.
type columnClass string

const (
	word    columnClass = "word"    // what somebody wrote, said or read
	fact    columnClass = "fact"    // what happened: names, counts, kinds
	control columnClass = "control" // what decides how the row is used: never emptied
)

// A column that is not listed counts as a word, and a test fails until it is
// listed.
type column struct {
	name  string
	class columnClass
	// must says that the column cannot be NULL: an archive stores '' in it.
	must bool
	// when says in which rows the column holds words; empty means in all.
	when string
	// bytes says that the column holds text or a blob, which counts as content.
	bytes bool
}

// A table is how retention sees a table of the schema.
type table struct {
	name string
	// of selects the table's rows that belong to a set of runs, given as a
	// subselect of run ids in the place of %s.
	of      string
	columns []column
	// keep leaves rows out of an archive.
	keep string
}

func words(name string) column    { return column{name: name, class: word, bytes: true} }
func mustWord(name string) column { return column{name: name, class: word, must: true, bytes: true} }

// mixed is a column that holds words in some rows and a name in the others.
func mixed(name, when string, must bool) column {
	return column{name: name, class: word, must: must, when: when, bytes: true}
}
func facts(name string) column    { return column{name: name, class: fact, bytes: true} }
func controls(name string) column { return column{name: name, class: control, bytes: true} }
func numbers(names ...string) []column {
	out := make([]column, len(names))
	for i, name := range names {
		out[i] = column{name: name, class: control}
	}
	return out
}

func cols(groups ...any) []column {
	var out []column
	for _, g := range groups {
		switch v := g.(type) {
		case column:
			out = append(out, v)
		case []column:
			out = append(out, v...)
		}
	}
	return out
}

const byRun = "run_id IN (%s)"

// runTables are the tables whose rows belong to runs: a table that others refer to
// comes before those, but for the runs themselves, which come last.
func runTables() []table {
	return []table{
		{name: "drives", of: byRun, columns: cols(facts("owner"), facts("takeover"), facts("provider"), controls("policy"), words("contract"), facts("outcome"), controls("dropped"),
			numbers("id", "run_id", "generation", "start_step", "started_at", "ended_at"))},
		{name: "run_leases", of: byRun, columns: cols(controls("owner"), controls("host"), controls("pid_started"),
			numbers("run_id", "pid", "generation", "drive_id", "acquired_at", "renewed_at", "ttl_ms"))},
		{name: "run_outcomes", of: byRun, columns: cols(facts("outcome"), numbers("run_id", "success", "steps", "tokens", "duration_ms", "finished_at"))},
		{name: "run_outputs", of: byRun, columns: cols(words("schema"), words("value"), numbers("run_id", "valid", "attempts", "at"))},
		{name: "steps", of: byRun, columns: cols(mustWord("decision"), words("result"), mustWord("prompt"), words("prompt_change"), mustWord("tool_call"),
			numbers("run_id", "step", "drive_id", "prompt_from", "tokens", "changed", "first_seq", "next_seq", "at"))},
		{name: "step_attempts", of: byRun, columns: cols(controls("kind"), mustWord("decision"), mustWord("result"), numbers("id", "run_id", "step", "delay_ms", "at"))},
		{name: "step_turns", of: byRun, columns: cols(words("text"), words("calls"), words("carry"), numbers("run_id", "step"))},
		{name: "ledger_observations", of: byRun, columns: cols(controls("kind"), mixed("target", "kind NOT IN ('read', 'write', 'skill')", false), controls("call_id"), words("text"), facts("digest"), facts("origin"),
			numbers("run_id", "seq", "step", "range_start", "range_len"))},
		{name: "summaries", of: byRun, columns: cols(words("text"),
			numbers("id", "run_id", "step", "through_step", "folded", "before_tokens", "after_tokens", "tokens", "at"))},
		{name: "provider_calls", of: byRun, columns: cols(controls("purpose"), facts("provider"), facts("model"), facts("finish_reason"), facts("failure"),
			numbers("id", "run_id", "step", "attempt", "prompt_tokens", "completion_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens",
				"reasoning_tokens", "server_tool_requests", "latency_ms", "ttft_ms", "at"))},
		{name: "citations", of: byRun, columns: cols(mustWord("url"), words("title"), words("cited_text"), numbers("run_id", "ordinal", "step", "cited_at"))},
		{name: "server_tool_calls", of: byRun, columns: cols(facts("provider"), facts("tool"), words("error"), numbers("id", "run_id", "step", "ran_at"))},
		{name: "pending_approvals", of: byRun, columns: cols(controls("call_id"), facts("tool"), words("arguments"), controls("act"), facts("target"), words("content"), facts("rule"), facts("layer"),
			controls("resolved"), facts("resolved_by"), words("reason"), words("modified"), controls("remember"), controls("bound"),
			numbers("id", "run_id", "step", "call_index", "asked_at", "resolved_at", "performed_at"))},
		{name: "policy_events", of: byRun, columns: cols(controls("kind"), controls("act"), facts("target"), facts("rule"), facts("layer"), controls("decision"), facts("source"), words("performed"),
			numbers("id", "run_id", "step", "request_id", "at"))},
		{name: "sandbox_events", of: byRun, columns: cols(controls("kind"), facts("backend"), facts("phase"), words("detail"), numbers("id", "run_id", "step", "at"))},
		{name: "mcp_events", of: byRun, columns: cols(controls("kind"), facts("server"), facts("tool"), words("detail"), numbers("id", "run_id", "step", "ok", "millis", "at"))},
		{name: "context_events", of: byRun, columns: cols(controls("kind"), words("detail"), numbers("id", "run_id", "step", "est_tokens", "reported_tokens", "superseded", "at"))},
		{name: "gate_attempts", of: byRun, columns: cols(facts("phase"), controls("outcome"), words("detail"), numbers("id", "run_id", "step", "drive_id", "at"))},
		{name: "pending_questions", of: byRun, columns: cols(controls("call_id"), words("question"), words("context"), words("choices"), words("questions"), words("answer"), words("answers"),
			facts("answered_by"), numbers("id", "run_id", "step", "asked_at", "answered_at", "delivered_seq"))},
		{name: "plans", of: byRun, columns: cols(controls("call_id"), words("steps"), controls("verdict"), words("correction"), facts("decided_by"),
			numbers("id", "run_id", "step", "proposed_at", "decided_at", "delivered_seq"))},
		{name: "tool_attempts", of: byRun, columns: cols(controls("call_id"), facts("tool"), words("arguments"), words("turn"), controls("idempotency_key"), controls("resolution"), words("result"),
			numbers("id", "run_id", "step", "call_index", "started_at", "completed_at"))},
		{name: "rewinds", of: byRun, columns: cols(controls("state"), numbers("id", "run_id", "undid_step", "at"))},
		{name: "edits", of: byRun, columns: cols(facts("tool"), facts("path"), words("hunk"), facts("digest"), words("facts"),
			numbers("id", "run_id", "step", "lines_added", "lines_removed", "call_index", "ordinal", "known", "reverted_by", "at"))},
		{name: "snapshots", of: byRun, columns: cols(facts("path"), controls("state"), words("before"), facts("reason"), numbers("run_id", "ordinal", "step", "mode", "at"))},
		{name: "rewind_items", of: "rewind_id IN (SELECT id FROM rewinds WHERE run_id IN (%s))",
			columns: cols(controls("kind"), mixed("name", "kind = 'queue'", true), controls("verdict"), words("detail"), numbers("rewind_id", "ordinal"))},
		{name: "process_handles", of: byRun, columns: cols(words("line"), controls("pids"), controls("state"), facts("reason"), numbers("run_id", "handle", "step", "code", "started_at", "ended_at"))},
		{name: "handle_output", of: byRun, columns: cols(words("chunk"), numbers("run_id", "handle", "seq", "step", "read_at"))},
		{name: "memory_recalls", of: byRun, columns: cols(facts("workspace"), facts("key"), numbers("run_id", "step", "ordinal", "at"))},
		{name: "memory_snapshots", of: byRun, columns: cols(facts("workspace"), facts("key"), controls("state"), words("before"), controls("kind"), numbers("run_id", "ordinal", "step", "at"))},
		{name: "todos", of: byRun, columns: cols(words("text"), controls("state"), numbers("run_id", "position", "written_at"))},
		{name: "agent_events", of: byRun, keep: "kind = 'spawn_refused'", columns: cols(controls("kind"), words("detail"),
			numbers("id", "run_id", "step", "child_run_id", "tokens", "remaining", "at"))},
		{name: "spawns", of: "child_run_id IN (%s)", columns: cols(controls("call_id"), mustWord("goal"), facts("verify_file"), mustWord("needle"), controls("deny_write"), facts("agent"), controls("as_name"),
			words("arguments"), controls("policy"), controls("returns"),
			numbers("child_run_id", "root_run_id", "parent_run_id", "step", "call_index", "max_steps", "settled_at", "folded_step"))},
		{name: "agent_queue", of: "parent_run_id IN (%s)", columns: cols(mustWord("goal"),
			numbers("parent_run_id", "step", "call_index", "root_run_id", "depth", "ticket", "queued_at"))},
		{name: "agent_messages", of: "to_run_id IN (%s)", columns: cols(facts("from_name"), controls("kind"), words("body"), column{name: "body_digest", class: control, bytes: true},
			numbers("id", "from_run_id", "to_run_id", "step", "call_index", "sent_at", "read_at", "read_step"))},
		{name: "run_events", of: byRun, columns: cols(controls("kind"), words("json"), numbers("id", "run_id", "root_run_id", "step", "depth", "at"))},
		{name: "session_turns", of: byRun, columns: cols(mustWord("prompt"), words("reply"), facts("outcome"),
			numbers("id", "session_id", "parent_turn_id", "run_id", "created_at", "finished_at"))},
		{name: "runs", of: "id IN (%s)", columns: cols(mustWord("goal"), facts("file"), controls("mode"), facts("provider"), controls("turn_kind"), controls("status"), controls("outcome"),
			numbers("id", "parent_run_id", "root_run_id", "depth", "outcome_steps", "waiting_id", "started_at", "last_step", "spent_tokens", "next_handle",
				"forked_run_id", "forked_step", "archived_at"))},
	}
}

// otherTables are those that no run owns.
func otherTables() []table {
	return []table{
		{name: "store_meta", columns: cols(controls("key"), controls("value"))},
		{name: "sessions", columns: cols(facts("root"), numbers("id", "head_turn_id", "created_at", "archived_at"))},
		{name: "memory_evidence", columns: cols(facts("workspace"), facts("key"), numbers("runs", "last_at"))},
		{name: "memory", columns: cols(facts("workspace"), facts("key"), mustWord("value"), controls("kind"), numbers("id", "pinned", "run_id", "step", "created_at"))},
	}
}

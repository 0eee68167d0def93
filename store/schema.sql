-- Generation 1 of the store. Stamps are milliseconds since the Unix epoch, UTC,
-- by the store's clock; booleans are 0 and 1; a word such as a status or a kind
-- is the text of the Go constant. Enumerations carry no CHECK, so that an older
-- program can keep the rows of a newer one.

CREATE TABLE store_meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Conversations ------------------------------------------------------------

CREATE TABLE sessions (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    root         TEXT NOT NULL,
    head_turn_id INTEGER REFERENCES session_turns (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    created_at   INTEGER NOT NULL,
    archived_at  INTEGER
) STRICT;
CREATE INDEX sessions_created ON sessions (created_at);
CREATE INDEX sessions_head ON sessions (head_turn_id) WHERE head_turn_id IS NOT NULL;

CREATE TABLE session_turns (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id     INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    parent_turn_id INTEGER REFERENCES session_turns (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    run_id         INTEGER NOT NULL UNIQUE REFERENCES runs (id) ON DELETE CASCADE,
    prompt         TEXT NOT NULL,
    reply          TEXT,
    outcome        TEXT,
    created_at     INTEGER NOT NULL,
    finished_at    INTEGER
) STRICT;
CREATE INDEX session_turns_session ON session_turns (session_id, id);
CREATE INDEX session_turns_parent ON session_turns (parent_turn_id);

-- Runs ---------------------------------------------------------------------

CREATE TABLE runs (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    parent_run_id INTEGER REFERENCES runs (id) ON DELETE CASCADE,
    root_run_id   INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    depth         INTEGER NOT NULL DEFAULT 0 CHECK (depth >= 0),
    goal          TEXT NOT NULL,
    file          TEXT NOT NULL,
    mode          TEXT NOT NULL,
    provider      TEXT,
    turn_kind     TEXT,
    status        TEXT NOT NULL,
    outcome       TEXT,
    outcome_steps INTEGER,
    waiting_id    INTEGER,
    started_at    INTEGER NOT NULL,
    last_step     INTEGER NOT NULL DEFAULT 0,
    spent_tokens  INTEGER NOT NULL DEFAULT 0,
    next_handle   INTEGER NOT NULL DEFAULT 1,
    forked_run_id INTEGER REFERENCES runs (id) ON DELETE SET NULL,
    forked_step   INTEGER,
    archived_at   INTEGER
) STRICT;
CREATE INDEX runs_parent ON runs (parent_run_id);
CREATE INDEX runs_root ON runs (root_run_id, id);
CREATE INDEX runs_open ON runs (status) WHERE status IN ('running', 'paused');
CREATE INDEX runs_started ON runs (started_at);
CREATE INDEX runs_forked ON runs (forked_run_id) WHERE forked_run_id IS NOT NULL;

CREATE TABLE drives (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    owner      TEXT NOT NULL,
    generation INTEGER NOT NULL,
    takeover   TEXT,
    provider   TEXT NOT NULL,
    policy     TEXT,
    contract   TEXT,
    start_step INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    outcome    TEXT,
    dropped    TEXT
) STRICT;
CREATE INDEX drives_run ON drives (run_id, id);

CREATE TABLE run_leases (
    run_id      INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    owner       TEXT NOT NULL,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    pid_started TEXT NOT NULL,
    generation  INTEGER NOT NULL,
    drive_id    INTEGER NOT NULL,
    acquired_at INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL,
    ttl_ms      INTEGER NOT NULL
) STRICT;

CREATE TABLE run_outcomes (
    run_id      INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    outcome     TEXT NOT NULL,
    success     INTEGER NOT NULL,
    steps       INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    finished_at INTEGER NOT NULL
) STRICT;
CREATE INDEX run_outcomes_outcome ON run_outcomes (outcome);
CREATE INDEX run_outcomes_finished ON run_outcomes (finished_at);

CREATE TABLE run_outputs (
    run_id   INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    schema   TEXT,
    value    TEXT,
    valid    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

-- Steps --------------------------------------------------------------------

CREATE TABLE steps (
    run_id    INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step      INTEGER NOT NULL CHECK (step >= 1),
    drive_id  INTEGER REFERENCES drives (id) ON DELETE SET NULL,
    decision  TEXT NOT NULL,
    result    TEXT,
    prompt    TEXT NOT NULL DEFAULT '',
    tool_call TEXT NOT NULL DEFAULT '',
    tokens    INTEGER NOT NULL CHECK (tokens >= 0),
    changed   INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    next_seq  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX steps_drive ON steps (drive_id);

CREATE TABLE step_attempts (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id   INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step     INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    decision TEXT NOT NULL,
    result   TEXT NOT NULL,
    delay_ms INTEGER,
    at       INTEGER NOT NULL
) STRICT;
CREATE INDEX step_attempts_run ON step_attempts (run_id, step, id);

CREATE TABLE step_turns (
    run_id INTEGER NOT NULL,
    step   INTEGER NOT NULL,
    text   TEXT,
    calls  TEXT,
    carry  TEXT,
    PRIMARY KEY (run_id, step),
    FOREIGN KEY (run_id, step) REFERENCES steps (run_id, step) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE ledger_observations (
    run_id  INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL CHECK (seq >= 0),
    step    INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    target  TEXT,
    call_id TEXT,
    text    TEXT,
    range_start INTEGER,
    range_len   INTEGER,
    digest      TEXT,
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE summaries (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    through_step  INTEGER NOT NULL,
    folded        INTEGER NOT NULL,
    text          TEXT,
    before_tokens INTEGER NOT NULL,
    after_tokens  INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    at            INTEGER NOT NULL
) STRICT;
CREATE INDEX summaries_run ON summaries (run_id, folded);

-- Evidence -----------------------------------------------------------------

CREATE TABLE provider_calls (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id               INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step                 INTEGER NOT NULL,
    attempt              INTEGER NOT NULL,
    purpose              TEXT NOT NULL,
    provider             TEXT NOT NULL,
    model                TEXT,
    prompt_tokens        INTEGER,
    completion_tokens    INTEGER,
    total_tokens         INTEGER,
    cache_read_tokens    INTEGER,
    cache_write_tokens   INTEGER,
    reasoning_tokens     INTEGER,
    server_tool_requests INTEGER,
    latency_ms           INTEGER NOT NULL,
    ttft_ms              INTEGER,
    finish_reason        TEXT,
    failure              TEXT,
    at                   INTEGER NOT NULL
) STRICT;
CREATE INDEX provider_calls_run ON provider_calls (run_id, id);
CREATE INDEX provider_calls_at ON provider_calls (at);

CREATE TABLE citations (
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    url        TEXT NOT NULL,
    title      TEXT,
    cited_text TEXT,
    cited_at   INTEGER NOT NULL,
    PRIMARY KEY (run_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX citations_url ON citations (run_id, step, url);

CREATE TABLE server_tool_calls (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id   INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step     INTEGER NOT NULL,
    provider TEXT NOT NULL,
    tool     TEXT NOT NULL,
    error    TEXT,
    ran_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX server_tool_calls_run ON server_tool_calls (run_id, id);

CREATE TABLE policy_events (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step       INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    act        TEXT NOT NULL,
    target     TEXT NOT NULL,
    rule       TEXT,
    layer      TEXT,
    decision   TEXT,
    source     TEXT,
    performed  TEXT,
    request_id INTEGER REFERENCES pending_approvals (id) ON DELETE SET NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX policy_events_run ON policy_events (run_id, id);
CREATE INDEX policy_events_request ON policy_events (request_id) WHERE request_id IS NOT NULL;

CREATE TABLE sandbox_events (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id  INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step    INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    backend TEXT,
    phase   TEXT,
    detail  TEXT,
    at      INTEGER NOT NULL
) STRICT;
CREATE INDEX sandbox_events_run ON sandbox_events (run_id, id);
CREATE INDEX sandbox_events_phase ON sandbox_events (phase, run_id) WHERE kind = 'gate_phase_failed';

CREATE TABLE mcp_events (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step   INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    server TEXT NOT NULL,
    tool   TEXT,
    ok     INTEGER,
    millis INTEGER,
    detail TEXT,
    at     INTEGER NOT NULL
) STRICT;
CREATE INDEX mcp_events_run ON mcp_events (run_id, id);

CREATE TABLE context_events (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id          INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step            INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    detail          TEXT,
    est_tokens      INTEGER,
    reported_tokens INTEGER,
    superseded      INTEGER NOT NULL DEFAULT 0,
    at              INTEGER NOT NULL
) STRICT;
CREATE INDEX context_events_run ON context_events (run_id, id);
CREATE INDEX context_events_kind ON context_events (kind) WHERE kind IN ('served', 'replan');

CREATE TABLE gate_attempts (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id  INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step    INTEGER NOT NULL,
    phase   TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail  TEXT,
    at      INTEGER NOT NULL
) STRICT;
CREATE INDEX gate_attempts_run ON gate_attempts (run_id, id);

-- People -------------------------------------------------------------------

CREATE TABLE pending_approvals (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id       INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step         INTEGER NOT NULL,
    call_index   INTEGER NOT NULL,
    call_id      TEXT,
    tool         TEXT NOT NULL,
    arguments    TEXT,
    act          TEXT NOT NULL,
    target       TEXT NOT NULL,
    content      TEXT,
    rule         TEXT,
    layer        TEXT,
    resolved     TEXT,
    resolved_by  TEXT,
    reason       TEXT,
    modified     TEXT,
    remember     TEXT,
    bound        TEXT,
    asked_at     INTEGER NOT NULL,
    resolved_at  INTEGER,
    performed_at INTEGER
) STRICT;
CREATE INDEX pending_approvals_run ON pending_approvals (run_id, id);
CREATE INDEX pending_approvals_open ON pending_approvals (run_id, id) WHERE resolved IS NULL;

CREATE TABLE pending_questions (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    call_id       TEXT,
    question      TEXT,
    context       TEXT,
    choices       TEXT,
    questions     TEXT,
    answer        TEXT,
    answers       TEXT,
    answered_by   TEXT,
    asked_at      INTEGER NOT NULL,
    answered_at   INTEGER,
    delivered_seq INTEGER
) STRICT;
CREATE INDEX pending_questions_run ON pending_questions (run_id, id);

CREATE TABLE plans (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    call_id       TEXT,
    steps         TEXT,
    verdict       TEXT,
    correction    TEXT,
    decided_by    TEXT,
    proposed_at   INTEGER NOT NULL,
    decided_at    INTEGER,
    delivered_seq INTEGER
) STRICT;
CREATE INDEX plans_run ON plans (run_id, verdict, id);

-- Effects ------------------------------------------------------------------

CREATE TABLE tool_attempts (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id          INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step            INTEGER NOT NULL,
    call_index      INTEGER NOT NULL,
    call_id         TEXT,
    tool            TEXT NOT NULL,
    arguments       TEXT,
    turn            TEXT,
    idempotency_key TEXT NOT NULL,
    started_at      INTEGER NOT NULL,
    completed_at    INTEGER,
    resolution      TEXT,
    result          TEXT
) STRICT;
CREATE INDEX tool_attempts_run ON tool_attempts (run_id, id);
CREATE INDEX tool_attempts_open ON tool_attempts (run_id, id) WHERE completed_at IS NULL;

CREATE TABLE edits (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id        INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    tool          TEXT NOT NULL,
    path          TEXT NOT NULL,
    lines_added   INTEGER NOT NULL,
    lines_removed INTEGER NOT NULL,
    hunk          TEXT,
    call_index    INTEGER,
    ordinal       INTEGER,
    digest        TEXT,
    known         INTEGER NOT NULL DEFAULT 0,
    facts         TEXT,
    reverted_by   INTEGER REFERENCES rewinds (id) ON DELETE SET NULL,
    at            INTEGER NOT NULL
) STRICT;
CREATE INDEX edits_run ON edits (run_id, step, id);
CREATE UNIQUE INDEX edits_call ON edits (run_id, step, call_index, ordinal) WHERE call_index IS NOT NULL;
CREATE INDEX edits_reverted ON edits (reverted_by) WHERE reverted_by IS NOT NULL;

CREATE TABLE snapshots (
    run_id  INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    path    TEXT NOT NULL,
    ordinal INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    state   TEXT NOT NULL,
    before  BLOB,
    mode    INTEGER NOT NULL,
    reason  TEXT,
    at      INTEGER NOT NULL,
    PRIMARY KEY (run_id, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE rewinds (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    undid_step INTEGER,
    state      TEXT NOT NULL,
    at         INTEGER NOT NULL
) STRICT;
CREATE INDEX rewinds_run ON rewinds (run_id, id);

CREATE TABLE rewind_items (
    rewind_id INTEGER NOT NULL REFERENCES rewinds (id) ON DELETE CASCADE,
    ordinal   INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    verdict   TEXT NOT NULL,
    detail    TEXT,
    PRIMARY KEY (rewind_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE process_handles (
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    handle     INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    line       TEXT,
    pids       TEXT NOT NULL DEFAULT '',
    state      TEXT NOT NULL,
    code       INTEGER,
    reason     TEXT,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (run_id, handle)
) STRICT, WITHOUT ROWID;

CREATE TABLE handle_output (
    run_id  INTEGER NOT NULL,
    handle  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    chunk   TEXT,
    read_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, handle, seq),
    FOREIGN KEY (run_id, handle) REFERENCES process_handles (run_id, handle) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Notes and lists ----------------------------------------------------------

-- Notes outlive the runs that wrote them, hence no foreign key.
CREATE TABLE memory (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    pinned     INTEGER NOT NULL DEFAULT 0,
    run_id     INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (workspace, key)
) STRICT;

CREATE TABLE memory_recalls (
    run_id    INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step      INTEGER NOT NULL,
    workspace TEXT NOT NULL,
    key       TEXT NOT NULL,
    ordinal   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, step, workspace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_recalls_entry ON memory_recalls (workspace, key, run_id, at);

CREATE TABLE memory_snapshots (
    run_id    INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    workspace TEXT NOT NULL,
    key       TEXT NOT NULL,
    ordinal   INTEGER NOT NULL,
    step      INTEGER NOT NULL,
    state     TEXT NOT NULL,
    before    TEXT,
    kind      TEXT,
    at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, workspace, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE todos (
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    text       TEXT,
    state      TEXT NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, position)
) STRICT, WITHOUT ROWID;

-- Trees --------------------------------------------------------------------

CREATE TABLE agent_events (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id       INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step         INTEGER NOT NULL,
    kind         TEXT NOT NULL,
    child_run_id INTEGER,
    detail       TEXT,
    tokens       INTEGER,
    remaining    INTEGER,
    at           INTEGER NOT NULL
) STRICT;
CREATE INDEX agent_events_run ON agent_events (run_id, id);

CREATE TABLE spawns (
    child_run_id  INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    root_run_id   INTEGER NOT NULL,
    parent_run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    call_index    INTEGER NOT NULL,
    call_id       TEXT,
    goal          TEXT NOT NULL,
    verify_file   TEXT NOT NULL,
    needle        TEXT NOT NULL,
    max_steps     INTEGER,
    deny_write    TEXT NOT NULL,
    agent         TEXT,
    as_name       TEXT,
    arguments     TEXT,
    policy        TEXT,
    returns       TEXT NOT NULL,
    settled_at    INTEGER,
    folded_step   INTEGER,
    UNIQUE (parent_run_id, step, call_index),
    UNIQUE (root_run_id, as_name)
) STRICT;

CREATE TABLE agent_queue (
    parent_run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step          INTEGER NOT NULL,
    call_index    INTEGER NOT NULL,
    root_run_id   INTEGER NOT NULL,
    goal          TEXT NOT NULL,
    depth         INTEGER NOT NULL,
    ticket        INTEGER NOT NULL,
    queued_at     INTEGER NOT NULL,
    PRIMARY KEY (parent_run_id, step, call_index)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_queue_root ON agent_queue (root_run_id, ticket);

CREATE TABLE agent_messages (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    from_run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    to_run_id   INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    from_name   TEXT NOT NULL,
    kind        TEXT NOT NULL,
    step        INTEGER NOT NULL,
    call_index  INTEGER NOT NULL,
    body        TEXT,
    body_digest BLOB NOT NULL,
    sent_at     INTEGER NOT NULL,
    read_at     INTEGER,
    read_step   INTEGER,
    UNIQUE (from_run_id, step, call_index, body_digest)
) STRICT;
CREATE INDEX agent_messages_to ON agent_messages (to_run_id, id);
CREATE INDEX agent_messages_unread ON agent_messages (to_run_id, id) WHERE read_at IS NULL;

-- The event stream ---------------------------------------------------------

CREATE TABLE run_events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id      INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    root_run_id INTEGER NOT NULL,
    step        INTEGER NOT NULL,
    depth       INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    json        TEXT,
    at          INTEGER NOT NULL
) STRICT;
CREATE INDEX run_events_run ON run_events (run_id, id);
CREATE INDEX run_events_root ON run_events (root_run_id, id);

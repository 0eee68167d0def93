-- Generation 4 keeps with each observation who or what its text comes from. Older
-- entries have no such mark, nor have those that older software adds.
--
-- It stores of most prompts only what differs from the step before. The column prompt
-- is empty then, which is how older software reads a prompt that was left out.
--
-- It keeps with each verdict of a gate in which drive it was given, because times of the
-- clock do not order it before or behind a change of the criterion.
--
-- And it has the tables that hold text or files as tables with row ids. Without them
-- SQLite keeps a row of more than a quarter of a page on pages of its own, so that an
-- observation of 1 KiB took 4.7 KiB of the file, and as much of the log. The columns are
-- the same in the same order, so older software uses these tables as it did before.

CREATE TABLE steps_4 (
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
    prompt_change TEXT,
    prompt_from   INTEGER,
    PRIMARY KEY (run_id, step)
) STRICT;
INSERT INTO steps_4 (run_id, step, drive_id, decision, result, prompt, tool_call, tokens, changed, first_seq, next_seq, at)
SELECT run_id, step, drive_id, decision, result, prompt, tool_call, tokens, changed, first_seq, next_seq, at FROM steps;

CREATE TABLE step_turns_4 (
    run_id INTEGER NOT NULL,
    step   INTEGER NOT NULL,
    text   TEXT,
    calls  TEXT,
    carry  TEXT,
    PRIMARY KEY (run_id, step),
    FOREIGN KEY (run_id, step) REFERENCES steps_4 (run_id, step) ON DELETE CASCADE
) STRICT;
INSERT INTO step_turns_4 (run_id, step, text, calls, carry)
SELECT run_id, step, text, calls, carry FROM step_turns;

-- The turns go before the steps that they refer to; renaming the steps renames what
-- refers to them.
DROP TABLE step_turns;
ALTER TABLE step_turns_4 RENAME TO step_turns;
DROP TABLE steps;
ALTER TABLE steps_4 RENAME TO steps;
CREATE INDEX steps_drive ON steps (drive_id);

CREATE TABLE ledger_observations_4 (
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
    origin      TEXT,
    PRIMARY KEY (run_id, seq)
) STRICT;
INSERT INTO ledger_observations_4 (run_id, seq, step, kind, target, call_id, text, range_start, range_len, digest)
SELECT run_id, seq, step, kind, target, call_id, text, range_start, range_len, digest FROM ledger_observations;
DROP TABLE ledger_observations;
ALTER TABLE ledger_observations_4 RENAME TO ledger_observations;

CREATE TABLE citations_4 (
    run_id     INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    ordinal    INTEGER NOT NULL,
    step       INTEGER NOT NULL,
    url        TEXT NOT NULL,
    title      TEXT,
    cited_text TEXT,
    cited_at   INTEGER NOT NULL,
    PRIMARY KEY (run_id, ordinal)
) STRICT;
INSERT INTO citations_4 (run_id, ordinal, step, url, title, cited_text, cited_at)
SELECT run_id, ordinal, step, url, title, cited_text, cited_at FROM citations;
DROP TABLE citations;
ALTER TABLE citations_4 RENAME TO citations;
CREATE INDEX citations_url ON citations (run_id, step, url);

CREATE TABLE snapshots_4 (
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
) STRICT;
INSERT INTO snapshots_4 (run_id, path, ordinal, step, state, before, mode, reason, at)
SELECT run_id, path, ordinal, step, state, before, mode, reason, at FROM snapshots;
DROP TABLE snapshots;
ALTER TABLE snapshots_4 RENAME TO snapshots;

CREATE TABLE handle_output_4 (
    run_id  INTEGER NOT NULL,
    handle  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    chunk   TEXT,
    read_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, handle, seq),
    FOREIGN KEY (run_id, handle) REFERENCES process_handles (run_id, handle) ON DELETE CASCADE
) STRICT;
INSERT INTO handle_output_4 (run_id, handle, seq, step, chunk, read_at)
SELECT run_id, handle, seq, step, chunk, read_at FROM handle_output;
DROP TABLE handle_output;
ALTER TABLE handle_output_4 RENAME TO handle_output;

CREATE TABLE memory_snapshots_4 (
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
) STRICT;
INSERT INTO memory_snapshots_4 (run_id, workspace, key, ordinal, step, state, before, kind, at)
SELECT run_id, workspace, key, ordinal, step, state, before, kind, at FROM memory_snapshots;
DROP TABLE memory_snapshots;
ALTER TABLE memory_snapshots_4 RENAME TO memory_snapshots;
CREATE INDEX memory_snapshots_order ON memory_snapshots (run_id, ordinal);

ALTER TABLE gate_attempts ADD COLUMN drive_id INTEGER;

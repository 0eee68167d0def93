-- Generation 3 keeps how many runs drew on each note, and when the last did, beside
-- the recalls themselves. Counting them again read every recall there ever was.
-- Triggers keep the figures, so that they hold whoever removes the recalls: a run
-- that is deleted takes its own along, and software of an older generation that
-- writes to the file does not know of the table.

CREATE TABLE memory_evidence (
    workspace TEXT NOT NULL,
    key       TEXT NOT NULL,
    runs      INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    PRIMARY KEY (workspace, key)
) STRICT, WITHOUT ROWID;

INSERT INTO memory_evidence (workspace, key, runs, last_at)
SELECT workspace, key, count(DISTINCT run_id), max(at) FROM memory_recalls GROUP BY workspace, key;

-- A run counts once for each note, whatever the number of its steps.
CREATE TRIGGER memory_recalls_added AFTER INSERT ON memory_recalls BEGIN
    INSERT INTO memory_evidence (workspace, key, runs, last_at) VALUES (NEW.workspace, NEW.key, 1, NEW.at)
    ON CONFLICT (workspace, key) DO UPDATE SET
        runs = runs + NOT EXISTS (SELECT 1 FROM memory_recalls r
            WHERE r.workspace = NEW.workspace AND r.key = NEW.key AND r.run_id = NEW.run_id AND r.step <> NEW.step),
        last_at = max(last_at, NEW.at);
END;

-- Only the removal of the latest recall looks for the one before it.
CREATE TRIGGER memory_recalls_removed AFTER DELETE ON memory_recalls BEGIN
    UPDATE memory_evidence SET
        runs = runs - NOT EXISTS (SELECT 1 FROM memory_recalls r
            WHERE r.workspace = OLD.workspace AND r.key = OLD.key AND r.run_id = OLD.run_id),
        last_at = CASE WHEN OLD.at < last_at THEN last_at ELSE coalesce((SELECT max(r.at) FROM memory_recalls r
            WHERE r.workspace = OLD.workspace AND r.key = OLD.key), 0) END
    WHERE workspace = OLD.workspace AND key = OLD.key;
    DELETE FROM memory_evidence WHERE workspace = OLD.workspace AND key = OLD.key AND runs = 0;
END;

-- The place of a run's next restore point of a note is found at the end of this
-- index, and a rewind reads them in its order.
CREATE INDEX memory_snapshots_order ON memory_snapshots (run_id, ordinal);

-- Generation 2 reads the edits and the attempts of a run by their ids, a page at a
-- time. The indexes of generation 1 put the step in between, so that each page
-- sorted all of them.

DROP INDEX edits_run;
CREATE INDEX edits_run ON edits (run_id, id);
DROP INDEX step_attempts_run;
CREATE INDEX step_attempts_run ON step_attempts (run_id, id);

-- Generation 4 keeps with each observation who or what its text comes from. Older
-- entries have no such mark, nor have those that older software adds.

ALTER TABLE ledger_observations ADD COLUMN origin TEXT;

-- And it stores of most prompts only what differs from the step before. The column
-- prompt is empty then, which is how older software reads a prompt that was left out.

ALTER TABLE steps ADD COLUMN prompt_change TEXT;
ALTER TABLE steps ADD COLUMN prompt_from INTEGER;

-- Generation 4 keeps with each observation who or what its text comes from. Older
-- entries have no such mark, nor have those that older software adds.

ALTER TABLE ledger_observations ADD COLUMN origin TEXT;

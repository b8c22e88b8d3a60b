-- For tests of upgrades: columns, an index and a table that this version does not know, and rows that are rewritten.

ALTER TABLE responses ADD COLUMN test_only TEXT;
ALTER TABLE runs ADD COLUMN test_only INTEGER NOT NULL DEFAULT 7;

UPDATE responses SET test_only = 'migrated';

CREATE INDEX responses_by_test_only ON responses (test_only);

CREATE TABLE test_only (
    id INTEGER PRIMARY KEY
) STRICT;

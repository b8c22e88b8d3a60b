-- Runs: the responses that are being made, and who makes them. A run has a row while it goes on.
--
-- The columns `instance`, `lease_until`, `epoch` and `background` of `responses` are no longer used.

DROP INDEX responses_running;

CREATE TABLE runs (
    response    INTEGER PRIMARY KEY,          -- responses.key
    instance    TEXT    NOT NULL,             -- the process that holds the lease
    epoch       INTEGER NOT NULL,             -- counts take-overs, from 1
    lease_until INTEGER NOT NULL,             -- Unix milliseconds
    orphan      INTEGER,                      -- null: its own process makes it; 0: that is gone; 1: its end could not be stored
    state       BLOB                          -- the run's own; the store does not read it
) STRICT;

INSERT INTO runs (response, instance, epoch, lease_until, orphan)
    SELECT key, instance, epoch, lease_until, CASE WHEN instance LIKE '%/abandoned' THEN 1 END
    FROM responses WHERE lease_until IS NOT NULL;

UPDATE responses SET lease_until = NULL WHERE lease_until IS NOT NULL;

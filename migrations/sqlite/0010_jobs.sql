-- Background runs: a run that any process may make, from its request.

ALTER TABLE runs ADD COLUMN attempt INTEGER;  -- how often it was claimed; null: only the process that began it makes it
ALTER TABLE runs ADD COLUMN job BLOB;         -- what it takes to make it, sealed; the store does not read it

CREATE INDEX runs_with_job ON runs (response, lease_until, instance, orphan) WHERE attempt IS NOT NULL;

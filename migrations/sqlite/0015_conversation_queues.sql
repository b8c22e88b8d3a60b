-- Background runs of one conversation are made one after the other, in the order in which they were queued.

ALTER TABLE runs ADD COLUMN conversation TEXT;   -- of a run that was queued in one
ALTER TABLE runs ADD COLUMN place INTEGER;       -- in the queue of that conversation; where two are equal, the key decides

CREATE INDEX runs_by_conversation ON runs (conversation, place, response) WHERE conversation IS NOT NULL;

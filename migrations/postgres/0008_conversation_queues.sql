-- Background runs of one conversation are made one after the other, in the order in which they were queued.
ALTER TABLE runs
    ADD COLUMN conversation bytea,            -- of a run that was queued in one
    ADD COLUMN place        bigint;           -- in the queue of that conversation; where two are equal, the key decides

CREATE INDEX runs_by_conversation ON runs (owner, conversation, place, response) WHERE conversation IS NOT NULL;

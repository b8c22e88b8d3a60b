-- Calls that are answered from outside, by a client or a callback, while their run waits as a row.

ALTER TABLE tool_calls
    ADD COLUMN call_id    bytea,              -- by which it is answered; null: the gateway makes the call
    ADD COLUMN expires_at bigint;             -- until when it can be answered, by the clock of the database

-- Until when the run waits, unless it is answered before; null: it does not wait.
ALTER TABLE runs ADD COLUMN waits_until bigint;

CREATE INDEX runs_that_wait ON runs (waits_until) WHERE waits_until IS NOT NULL;

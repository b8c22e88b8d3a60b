-- Calls that are answered from outside, by a client or a callback, while their run waits as a row.

ALTER TABLE tool_calls ADD COLUMN call_id TEXT;        -- by which it is answered; null: the gateway makes the call
ALTER TABLE tool_calls ADD COLUMN expires_at INTEGER;  -- until when it can be answered, in Unix milliseconds

-- Until when the run waits, unless it is answered before; null: it does not wait.
ALTER TABLE runs ADD COLUMN waits_until INTEGER;

CREATE INDEX runs_that_wait ON runs (waits_until) WHERE waits_until IS NOT NULL;

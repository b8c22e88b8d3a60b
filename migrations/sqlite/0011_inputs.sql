-- Calls that are answered from outside, by a client or a callback, while their run waits as a row.

ALTER TABLE tool_calls ADD COLUMN call_id TEXT;        -- by which it is answered; null: the gateway makes the call
ALTER TABLE tool_calls ADD COLUMN expires_at INTEGER;  -- until when it can be answered, in Unix milliseconds

-- Until when the run waits, unless it is answered before; null: it does not wait.
ALTER TABLE runs ADD COLUMN waits_until INTEGER;

CREATE INDEX runs_that_wait ON runs (waits_until) WHERE waits_until IS NOT NULL;

-- Calls whose work has gone on after their answer, and its results. Goes with the response.
CREATE TABLE async_calls (
    response     INTEGER NOT NULL,            -- responses.key
    turn         INTEGER NOT NULL,            -- as in tool_calls
    position     INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,            -- until when the result is waited for, in Unix milliseconds
    item_id      TEXT,                        -- of the call; null: the call has not answered yet
    tool         TEXT,
    on_complete  TEXT,                        -- what the result leads to
    spec         BLOB,                        -- what it takes to do that, sealed; the store does not read it
    completed_at INTEGER,
    output       TEXT,                        -- opaque
    error        TEXT,                        -- the code of the failure
    settled_at   INTEGER,                     -- when that was done
    PRIMARY KEY (response, turn, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX async_calls_open ON async_calls (expires_at) WHERE settled_at IS NULL;

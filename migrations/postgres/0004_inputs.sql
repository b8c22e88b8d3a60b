-- Calls that are answered from outside, by a client or a callback, while their run waits as a row.

ALTER TABLE tool_calls
    ADD COLUMN call_id    bytea,              -- by which it is answered; null: the gateway makes the call
    ADD COLUMN expires_at bigint;             -- until when it can be answered, by the clock of the database

-- Until when the run waits, unless it is answered before; null: it does not wait.
ALTER TABLE runs ADD COLUMN waits_until bigint;

CREATE INDEX runs_that_wait ON runs (waits_until) WHERE waits_until IS NOT NULL;

-- Calls whose work has gone on after their answer, and its results. Goes with the response.
CREATE TABLE async_calls (
    response     uuid    NOT NULL,            -- responses.key
    owner        bigint  NOT NULL,            -- owners.key
    turn         integer NOT NULL,            -- as in tool_calls
    position     integer NOT NULL,
    expires_at   bigint  NOT NULL,            -- until when the result is waited for, by the clock of the database
    item_id      bytea,                       -- of the call; null: the call has not answered yet
    tool         bytea,
    on_complete  text,                        -- what the result leads to
    spec         bytea,                       -- what it takes to do that, sealed; the store does not read it
    completed_at bigint,
    output       bytea,                       -- opaque
    error        text,                        -- the code of the failure
    settled_at   bigint,                      -- when that was done
    PRIMARY KEY (response, owner, turn, position)
);

CREATE INDEX async_calls_open ON async_calls (expires_at) WHERE settled_at IS NULL;

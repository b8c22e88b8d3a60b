-- Calls whose results the gateway looks for: tasks of MCP servers.

ALTER TABLE async_calls
    ADD COLUMN task    bytea,                 -- what it takes to look, sealed; the store does not read it
    ADD COLUMN poll_at bigint;                -- when to look next, by the clock of the database; null: nobody looks

CREATE INDEX async_calls_polled ON async_calls (poll_at) WHERE poll_at IS NOT NULL;

-- Calls whose results the gateway looks for: tasks of MCP servers.

ALTER TABLE async_calls ADD COLUMN task BLOB;        -- what it takes to look, sealed; the store does not read it
ALTER TABLE async_calls ADD COLUMN poll_at INTEGER;  -- when to look next, in Unix milliseconds; null: nobody looks

CREATE INDEX async_calls_polled ON async_calls (poll_at) WHERE poll_at IS NOT NULL;

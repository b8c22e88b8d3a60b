-- Streams that are followed, runs that are cancelled from elsewhere, and webhooks.

-- The responses that have, or had, a log of events. Goes with the response.
CREATE TABLE event_logs (
    response      INTEGER PRIMARY KEY,        -- responses.key
    expires_at    INTEGER,                    -- Unix milliseconds; null while the run goes on
    replaced_from INTEGER                     -- events from this number on are others than those that were logged first
) STRICT;

-- So far a log was kept with its key.
INSERT INTO event_logs (response, expires_at)
    SELECT l.response, max(k.expires_at)
    FROM event_log l LEFT JOIN idempotency_keys k ON k.response = l.response GROUP BY l.response;

-- Whether the owner of a running response wants it to end.
ALTER TABLE runs ADD COLUMN cancel_requested INTEGER NOT NULL DEFAULT 0;

CREATE INDEX runs_to_cancel ON runs (instance) WHERE cancel_requested = 1;

-- Notices to webhooks that were not delivered yet.
CREATE TABLE webhook_outbox (
    key      INTEGER PRIMARY KEY,
    owner    INTEGER NOT NULL,                -- owners.key
    webhook  TEXT    NOT NULL,                -- its name in the configuration
    event_id TEXT    NOT NULL,
    body     TEXT    NOT NULL,                -- as it is sent
    attempts INTEGER NOT NULL DEFAULT 0,      -- how often it was taken for delivery
    due_at   INTEGER NOT NULL                 -- Unix milliseconds; of one that is being delivered, when it is taken again
) STRICT;

CREATE INDEX webhook_outbox_by_time ON webhook_outbox (due_at);
CREATE INDEX webhook_outbox_by_owner ON webhook_outbox (owner);

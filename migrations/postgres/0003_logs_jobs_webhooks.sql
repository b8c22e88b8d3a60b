-- Streams that are followed, runs that are cancelled from elsewhere, background runs, and webhooks.

-- The responses that have, or had, a log of events. Goes with the response.
CREATE TABLE event_logs (
    response      uuid   NOT NULL,            -- responses.key
    owner         bigint NOT NULL,            -- owners.key
    expires_at    bigint,                     -- null while the run goes on; 0: it was given up
    replaced_from bigint,                     -- events from this number on are others than those that were logged first
    PRIMARY KEY (response, owner)
);

-- So far a log was kept with its key.
INSERT INTO event_logs (response, owner, expires_at)
    SELECT l.response, l.owner, max(k.expires_at)
    FROM event_log l LEFT JOIN idempotency_keys k ON k.response = l.response AND k.owner = l.owner
    GROUP BY l.response, l.owner;

-- A run with an `attempt` is one that any process may make, from its request. That of nobody has the instance ''.
ALTER TABLE runs
    ADD COLUMN cancel_requested boolean NOT NULL DEFAULT false,  -- whether the owner of the response wants it to end
    ADD COLUMN attempt          integer,      -- how often it was claimed; null: only the process that began it makes it
    ADD COLUMN claim            uuid,         -- the claim by which its process has it
    ADD COLUMN job              bytea;        -- what it takes to make it, sealed; the store does not read it

ALTER TABLE runs ALTER COLUMN job SET STORAGE EXTERNAL;

CREATE INDEX runs_to_cancel ON runs (instance) WHERE cancel_requested;

-- None of these has a column that changes when a lease is renewed, so that renewals write no index.
CREATE INDEX runs_waiting ON runs (response, owner) WHERE attempt IS NOT NULL AND instance = '';
CREATE INDEX runs_claimed ON runs (response, owner) WHERE attempt IS NOT NULL AND instance <> '';
CREATE INDEX runs_of_requests ON runs (response, owner) WHERE attempt IS NULL;

-- Notices to webhooks that were not delivered yet.
CREATE TABLE webhook_outbox (
    key      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner    bigint  NOT NULL,                -- owners.key
    due_at   bigint  NOT NULL,                -- by the clock of the database; of one that is being delivered, when it is taken again
    attempts integer NOT NULL DEFAULT 0,      -- how often it was taken for delivery
    webhook  text    NOT NULL,                -- its name in the configuration
    event_id text    NOT NULL,
    body     bytea   NOT NULL                 -- as it is sent
);

CREATE INDEX webhook_outbox_by_time ON webhook_outbox (due_at);
CREATE INDEX webhook_outbox_by_owner ON webhook_outbox (owner);

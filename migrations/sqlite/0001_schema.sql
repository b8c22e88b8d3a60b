-- Responses, the runs that make them, and what is kept beside them.
--
-- Times are Unix milliseconds unless said otherwise. Columns that queries look at stand before the long ones, which may have
-- pages of their own. What belongs to a response goes with it: the store deletes it, there are no foreign keys.

-- Whose rows are whose. A row stays when its owner has none any more.
CREATE TABLE owners (
    key       INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    principal TEXT NOT NULL,
    UNIQUE (tenant, principal)
) STRICT;

-- `key` is made from the id (`crates/store-sqlite/src/keys.rs`): it begins with the time, so that the table is appended to, and
-- look-ups by id need no index.
CREATE TABLE responses (
    key           INTEGER PRIMARY KEY,
    owner         INTEGER NOT NULL,           -- owners.key
    id            TEXT    NOT NULL,
    expires_at    INTEGER,                    -- null: never
    lineage_until INTEGER,                    -- neither it nor an ancestor expires before this
    created_at    INTEGER NOT NULL,           -- Unix seconds, as the response says
    finished_at   INTEGER,                    -- null while it runs
    status        TEXT    NOT NULL,
    previous_id   TEXT,                       -- of the response that it continues, or of the conversation that it was made in
    model         TEXT    NOT NULL,
    unlisted      INTEGER,                    -- 1: it is polled by its id alone; null: it is stored
    failed_tenant TEXT,                       -- of a request that failed before its first output: its tenant
    item_index    BLOB    NOT NULL,           -- ids and lengths of the items (`crates/store/src/item_index.rs`)
    items         BLOB    NOT NULL,           -- their texts
    body          TEXT    NOT NULL,           -- the response object, as sent
    trace         TEXT                        -- the account of the run, with times; written when it ends; opaque
) STRICT;

-- Serves lists, and finds all rows of an owner.
CREATE INDEX responses_by_owner ON responses (owner, key);

-- Lists with a filter are found by it.
CREATE INDEX responses_by_status ON responses (owner, status, key) WHERE unlisted IS NULL;
CREATE INDEX responses_by_model ON responses (owner, model, status, key) WHERE unlisted IS NULL;

-- Rows whose life is short are found when it is over.
CREATE INDEX responses_unlisted ON responses (expires_at) WHERE unlisted IS NOT NULL;

-- Finds the oldest failed request of a tenant: the newest are kept.
CREATE INDEX responses_by_failed_tenant ON responses (failed_tenant, key) WHERE failed_tenant IS NOT NULL;

-- Ids of items that do not name their response: those that clients and model servers made.
CREATE TABLE item_ids (
    owner    INTEGER NOT NULL,                -- owners.key
    item_id  TEXT    NOT NULL,
    response INTEGER NOT NULL,                -- responses.key
    PRIMARY KEY (owner, item_id, response)
) STRICT, WITHOUT ROWID;

-- Items with provider state, by what a replay of them finds it with.
CREATE TABLE item_states (
    state_key TEXT    NOT NULL,
    response  INTEGER NOT NULL,               -- responses.key
    PRIMARY KEY (state_key, response)
) STRICT, WITHOUT ROWID;

-- The running responses, and who makes them. A run with an `attempt` is a background run, which any process may make from
-- its request.
CREATE TABLE runs (
    response         INTEGER PRIMARY KEY,     -- responses.key
    instance         TEXT    NOT NULL,        -- the process that holds the lease
    epoch            INTEGER NOT NULL,        -- counts take-overs, from 1
    lease_until      INTEGER NOT NULL,
    orphan           INTEGER,                 -- null: its own process makes it; 0: that is gone; 1: its end could not be stored
    cancel_requested INTEGER NOT NULL DEFAULT 0,  -- whether the owner of the response wants it to end
    attempt          INTEGER,                 -- how often it was claimed; null: only the process that began it makes it
    waits_until      INTEGER,                 -- until when it waits, unless it is answered before; null: it does not wait
    tenant           TEXT    NOT NULL DEFAULT '', -- of a background run: that of its owner
    conversation     TEXT,                    -- of a run that was queued in one
    place            INTEGER,                 -- in the queue of that conversation; where two are equal, the key decides
    state            BLOB,                    -- the run's own; the store does not read it
    job              BLOB                     -- what it takes to make it, sealed; the store does not read it
) STRICT;

CREATE INDEX runs_to_cancel ON runs (instance) WHERE cancel_requested = 1;
CREATE INDEX runs_with_job ON runs (response, lease_until, instance, orphan) WHERE attempt IS NOT NULL;
CREATE INDEX runs_that_wait ON runs (waits_until) WHERE waits_until IS NOT NULL;

-- Background runs are claimed by tenant in turn; those of one conversation are made in the order in which they were queued.
CREATE INDEX runs_by_tenant ON runs (tenant, response, lease_until, instance, orphan) WHERE attempt IS NOT NULL;
CREATE INDEX runs_by_conversation ON runs (conversation, place, response) WHERE conversation IS NOT NULL;

-- The turns of running responses: the items since the row was written. Removed when the response ends.
CREATE TABLE turns (
    response   INTEGER NOT NULL,              -- responses.key
    turn       INTEGER NOT NULL,
    item_index BLOB    NOT NULL,
    items      BLOB    NOT NULL,
    PRIMARY KEY (response, turn)
) STRICT, WITHOUT ROWID;

-- The calls of tools, in the order of their dispatch: each before it is made, its outcome when it is known.
CREATE TABLE tool_calls (
    response      INTEGER NOT NULL,           -- responses.key
    turn          INTEGER NOT NULL,           -- which inference asked for it: 0, 1, 2 …
    position      INTEGER NOT NULL,           -- which of that inference's calls: 0, 1, 2 …
    dispatched_at INTEGER NOT NULL,
    completed_at  INTEGER,                    -- null: whether the call had its effect is unknown
    server_label  TEXT    NOT NULL,
    tool          TEXT    NOT NULL,
    arguments     TEXT    NOT NULL,           -- as the model wrote them
    output        TEXT,                       -- what the model was told, or
    error         TEXT,                       -- the stable code of its failure, `output` saying it in words
    PRIMARY KEY (response, turn, position)
) STRICT, WITHOUT ROWID;

-- Calls whose results come from outside their run: the client executes a function, the user answers a question of a tool, or the
-- work of a call goes on after its answer. Goes with the response.
CREATE TABLE pending_calls (
    response     INTEGER NOT NULL,            -- responses.key
    turn         INTEGER NOT NULL,            -- as in tool_calls
    position     INTEGER NOT NULL,            -- as in tool_calls; questions have those behind the calls
    source       TEXT    NOT NULL,            -- who has the result (`crates/store/src/pending_calls.rs`)
    awaited      INTEGER NOT NULL,            -- 1: a run that waits is not claimed before the result is there, or is late
    expires_at   INTEGER NOT NULL,            -- until when the result is waited for
    poll_at      INTEGER,                     -- when the gateway looks for it next; null: it is reported
    completed_at INTEGER,                     -- null: there is no result
    settled_at   INTEGER,                     -- when the result had led to what `on_complete` says
    call_id      TEXT,                        -- by which it is answered; null: it is reported by its place
    item_id      TEXT,                        -- of a call whose work goes on; null: the call has not answered yet
    tool         TEXT,
    on_complete  TEXT,                        -- what the result leads to when the response has ended
    error        TEXT,                        -- the code of the failure
    request      TEXT,                        -- what is asked; opaque
    spec         BLOB,                        -- what it takes to do what `on_complete` says, sealed; the store does not read it
    task         BLOB,                        -- what it takes to look for the result, sealed; the store does not read it
    output       TEXT,                        -- opaque
    PRIMARY KEY (response, turn, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX pending_calls_to_settle ON pending_calls (expires_at) WHERE settled_at IS NULL AND item_id IS NOT NULL;
CREATE INDEX pending_calls_polled ON pending_calls (poll_at) WHERE poll_at IS NOT NULL;

-- Calls that wait for a person's approval. Of what would be called only hashes are kept. The response need not have a row.
CREATE TABLE approvals (
    owner      INTEGER NOT NULL,              -- owners.key
    id         TEXT    NOT NULL,
    response   TEXT    NOT NULL,              -- the id of the response that asked
    arguments  BLOB    NOT NULL,              -- SHA-256
    definition BLOB    NOT NULL,              -- SHA-256
    expires_at INTEGER NOT NULL,              -- Unix seconds
    used_at    INTEGER,                       -- Unix seconds; null: not yet
    used_by    TEXT,                          -- the id of the response that makes the call
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX approvals_by_response ON approvals (owner, response);
CREATE INDEX approvals_by_expiry ON approvals (expires_at);

-- Items that requests read and append to. A response that was made in a conversation has its id as `previous_id`.
CREATE TABLE conversations (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,   -- never given twice: a deletion in steps knows only this
    owner         INTEGER NOT NULL,           -- owners.key
    id            TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,           -- Unix seconds
    used_at       INTEGER NOT NULL,           -- the last append or update; 0: is being deleted
    next_position INTEGER NOT NULL,           -- of the next item; never decreases
    visible_from  INTEGER NOT NULL,           -- the newest summary of all before it hides what has a lower position
    metadata      TEXT    NOT NULL            -- a JSON object
) STRICT;

-- Ids begin with their time, so that the index is appended to.
CREATE UNIQUE INDEX conversations_by_id ON conversations (id);
CREATE INDEX conversations_by_use ON conversations (used_at);
CREATE INDEX conversations_by_owner ON conversations (owner);

CREATE TABLE conversation_items (
    key          INTEGER PRIMARY KEY,         -- conversations.key << 31 | position
    conversation INTEGER NOT NULL,            -- conversations.key
    item_id      TEXT    NOT NULL,
    direction    INTEGER NOT NULL,            -- 0: input, 1: output
    context      INTEGER,                     -- 1: a user's message, 2: instructions, 3: a summary of all before it
    tokens       INTEGER,                     -- estimated, of a user's message
    state        TEXT,                        -- sealed provider state
    model_view   TEXT,                        -- what the model sees; null: `wire`; '': nothing
    wire         TEXT    NOT NULL             -- the item, as clients see it
) STRICT;

CREATE UNIQUE INDEX conversation_items_by_id ON conversation_items (conversation, item_id);
-- What a summary leaves of the items before it, and the summaries.
CREATE INDEX conversation_items_by_context ON conversation_items (conversation, context) WHERE context IS NOT NULL;

-- What a response that was made in a conversation has read of it.
CREATE TABLE response_conversations (
    response INTEGER PRIMARY KEY,             -- responses.key
    first    INTEGER NOT NULL,                -- the position from which items were visible
    until    INTEGER NOT NULL                 -- the position behind the last item
) STRICT;

-- Which response the key of a request has led to. Goes with the response.
CREATE TABLE idempotency_keys (
    owner       INTEGER NOT NULL,             -- owners.key
    key         TEXT    NOT NULL,             -- as the client sent it
    fingerprint BLOB    NOT NULL,             -- SHA-256 of the request
    response    INTEGER NOT NULL,             -- responses.key
    expires_at  INTEGER NOT NULL,             -- a run that goes on keeps its key
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_keys_by_response ON idempotency_keys (response);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- Keys whose response its owner has deleted: the same request is not made again. Nothing else of the response is left.
CREATE TABLE deleted_keys (
    owner       INTEGER NOT NULL,             -- owners.key
    key         TEXT    NOT NULL,             -- as in idempotency_keys
    fingerprint BLOB    NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX deleted_keys_by_expiry ON deleted_keys (expires_at);

-- The responses that have, or had, a log of events. Goes with the response.
CREATE TABLE event_logs (
    response      INTEGER PRIMARY KEY,        -- responses.key
    expires_at    INTEGER,                    -- null while the run goes on
    replaced_from INTEGER                     -- events from this number on are others than those that were logged first
) STRICT;

-- The events of a stream as they were sent, several to a row, without gaps. Goes with the response, or with the key.
CREATE TABLE event_log (
    response INTEGER NOT NULL,                -- responses.key
    first    INTEGER NOT NULL,                -- sequence number of the first event
    last     INTEGER NOT NULL,                -- sequence number of the last event
    is_end   INTEGER NOT NULL,                -- whether that is the terminal event
    bytes    BLOB    NOT NULL,                -- encoded for the wire
    PRIMARY KEY (response, first)
) STRICT;

-- Notices to webhooks that were not delivered yet.
CREATE TABLE webhook_outbox (
    key      INTEGER PRIMARY KEY,
    owner    INTEGER NOT NULL,                -- owners.key
    webhook  TEXT    NOT NULL,                -- its name in the configuration
    event_id TEXT    NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,      -- how often it was taken for delivery
    due_at   INTEGER NOT NULL,                -- of one that is being delivered, when it is taken again
    body     TEXT    NOT NULL                 -- as it is sent
) STRICT;

CREATE INDEX webhook_outbox_by_time ON webhook_outbox (due_at);
CREATE INDEX webhook_outbox_by_owner ON webhook_outbox (owner);

-- One row, rewritten to see whether the database accepts writes.
CREATE TABLE probe (
    id      INTEGER PRIMARY KEY CHECK (id = 0),
    written INTEGER NOT NULL
) STRICT;

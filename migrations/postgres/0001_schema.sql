-- Responses, the runs that make them, and what is kept beside them.
--
-- Times are Unix milliseconds unless said otherwise. What clients and model servers have written is `bytea`, since `text`
-- cannot hold every character: it is UTF-8, and `convert_from(column, 'UTF8')` shows it. Columns that queries look at stand
-- before the long ones. What belongs to a response goes with it: the store deletes it, there are no foreign keys.

-- Whose rows are whose.
CREATE TABLE owners (
    key       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    bytea NOT NULL,
    principal bytea NOT NULL,
    UNIQUE (tenant, principal)
);

-- `key` is the UUID of the id, which begins with the time, so that the table is appended to, and can be divided by
-- time. The long columns are not compressed: parts of them are read alone.
CREATE TABLE responses (
    key           uuid   NOT NULL,
    owner         bigint NOT NULL,            -- owners.key
    expires_at    bigint,                     -- null: never; 0: deleted while it runs
    lineage_until bigint,                     -- neither it nor an ancestor expires before this
    created_at    bigint NOT NULL,            -- Unix seconds, as the response says
    finished_at   bigint,                     -- null while it runs
    status        text   NOT NULL,
    unlisted      boolean,                    -- true: it is polled by its id alone; null: it is stored
    failed_tenant bytea,                      -- of a request that failed before its first output: its tenant
    id            bytea,                      -- null: resp_ and the digits of the key
    previous_key  uuid,                       -- the key of the response that it continues
    previous_id   bytea,                      -- the id of that, or of the conversation that it was made in
    model         bytea  NOT NULL,
    item_index    bytea  NOT NULL,            -- ids and lengths of the items (`crates/store/src/item_index.rs`)
    items         bytea  NOT NULL,            -- their texts
    body          bytea  NOT NULL,            -- the response object, as sent
    trace         bytea,                      -- the account of the run, with times; written when it ends; opaque
    PRIMARY KEY (key, owner)
);

ALTER TABLE responses ALTER COLUMN items SET STORAGE EXTERNAL, ALTER COLUMN body SET STORAGE EXTERNAL;

-- Serves lists, and finds all rows of an owner.
CREATE INDEX responses_by_owner ON responses (owner, key);

-- Lists with a filter are found by it. An entry of an index has a bound, the name of a model has none.
CREATE INDEX responses_by_status ON responses (owner, status, key) WHERE unlisted IS NULL;
CREATE INDEX responses_by_model ON responses (owner, substring(model FOR 256), status, key) WHERE unlisted IS NULL;

-- Rows whose life is short are found when it is over.
CREATE INDEX responses_unlisted ON responses (expires_at) WHERE unlisted IS NOT NULL;

-- Finds the oldest failed request of a tenant: the newest are kept.
CREATE INDEX responses_by_failed_tenant ON responses (failed_tenant, key, owner) WHERE failed_tenant IS NOT NULL;

-- Ids of items that do not name their response: those that clients and model servers made.
CREATE TABLE item_ids (
    owner    bigint NOT NULL,
    item_id  bytea  NOT NULL,                 -- SHA-256 of an id that is longer than an index takes
    response uuid   NOT NULL,
    PRIMARY KEY (owner, item_id, response)
);

-- Items with provider state, by what a replay of them finds it with.
CREATE TABLE item_states (
    owner     bigint NOT NULL,
    state_key bytea  NOT NULL,                -- SHA-256
    response  uuid   NOT NULL,
    PRIMARY KEY (state_key, owner, response)
);

-- The running responses, and who makes them. The row of `responses` is that of the same key and owner. A run with an
-- `attempt` is a background run, which any process may make from its request; that of nobody has the instance ''.
CREATE TABLE runs (
    response         uuid    NOT NULL,
    owner            bigint  NOT NULL,
    lease_until      bigint  NOT NULL,        -- by the clock of the database
    waits_until      bigint,                  -- until when it waits, unless it is answered before; null: it does not wait
    place            bigint,                  -- in the queue of its conversation; where two are equal, the key decides
    epoch            integer NOT NULL,        -- how often the run was taken over, from 1
    attempt          integer,                 -- how often it was claimed; null: only the process that began it makes it
    orphan           smallint,                -- why nobody makes it: 0: its process is gone, 1: its end could not be stored
    cancel_requested boolean NOT NULL DEFAULT false,  -- whether the owner of the response wants it to end
    claim            uuid,                    -- the claim by which its process has it
    instance         text    NOT NULL,        -- the process that makes it
    tenant           bytea   NOT NULL DEFAULT '',     -- of a background run: that of its owner
    conversation     bytea,                   -- of a run that was queued in one
    state            bytea,                   -- opaque
    job              bytea,                   -- what it takes to make it, sealed; the store does not read it
    PRIMARY KEY (response, owner)
) WITH (fillfactor = 70);

ALTER TABLE runs ALTER COLUMN state SET STORAGE EXTERNAL, ALTER COLUMN job SET STORAGE EXTERNAL;

CREATE INDEX runs_by_instance ON runs (instance);
CREATE INDEX runs_to_cancel ON runs (instance) WHERE cancel_requested;
CREATE INDEX runs_that_wait ON runs (waits_until) WHERE waits_until IS NOT NULL;

-- None of these has a column that changes when a lease is renewed, so that renewals write no index.
CREATE INDEX runs_waiting ON runs (response, owner) WHERE attempt IS NOT NULL AND instance = '';
CREATE INDEX runs_claimed ON runs (response, owner) WHERE attempt IS NOT NULL AND instance <> '';
CREATE INDEX runs_of_requests ON runs (response, owner) WHERE attempt IS NULL;

-- Background runs are claimed by tenant in turn; those of one conversation are made in the order in which they were queued.
CREATE INDEX runs_waiting_by_tenant ON runs (tenant, response, owner) WHERE attempt IS NOT NULL AND instance = '';
CREATE INDEX runs_by_conversation ON runs (owner, conversation, place, response) WHERE conversation IS NOT NULL;

-- The turns of running responses: the items since the row was written. Removed when the response ends.
CREATE TABLE turns (
    response   uuid    NOT NULL,
    owner      bigint  NOT NULL,
    turn       integer NOT NULL,
    item_index bytea   NOT NULL,
    items      bytea   NOT NULL,
    PRIMARY KEY (response, owner, turn)
);

ALTER TABLE turns ALTER COLUMN items SET STORAGE EXTERNAL;

-- The calls of tools of running and ended responses.
CREATE TABLE tool_calls (
    response      uuid    NOT NULL,
    owner         bigint  NOT NULL,
    turn          integer NOT NULL,
    position      integer NOT NULL,           -- the place of the call in its turn
    dispatched_at bigint  NOT NULL,
    completed_at  bigint,                     -- null: whether the call had its effect is unknown
    server_label  bytea   NOT NULL,
    tool          bytea   NOT NULL,
    arguments     bytea   NOT NULL,
    output        bytea,
    error         text,
    PRIMARY KEY (response, owner, turn, position)
);

-- Calls whose results come from outside their run: the client executes a function, the user answers a question of a tool, or the
-- work of a call goes on after its answer. Goes with the response.
CREATE TABLE pending_calls (
    response     uuid    NOT NULL,            -- responses.key
    owner        bigint  NOT NULL,
    turn         integer NOT NULL,            -- as in tool_calls
    position     integer NOT NULL,            -- as in tool_calls; questions have those behind the calls
    awaited      boolean NOT NULL,            -- a run that waits is not claimed before the result is there, or is late
    expires_at   bigint  NOT NULL,            -- until when the result is waited for, by the clock of the database
    poll_at      bigint,                      -- when the gateway looks for it next, by that clock; null: it is reported
    completed_at bigint,                      -- null: there is no result
    settled_at   bigint,                      -- when the result had led to what `on_complete` says
    source       text    NOT NULL,            -- who has the result (`crates/store/src/pending_calls.rs`)
    call_id      bytea,                       -- by which it is answered; null: it is reported by its place
    item_id      bytea,                       -- of a call whose work goes on; null: the call has not answered yet
    tool         bytea,
    on_complete  text,                        -- what the result leads to when the response has ended
    error        text,                        -- the code of the failure
    request      bytea,                       -- what is asked; opaque
    spec         bytea,                       -- what it takes to do what `on_complete` says, sealed; the store does not read it
    task         bytea,                       -- what it takes to look for the result, sealed; the store does not read it
    output       bytea,                       -- opaque
    PRIMARY KEY (response, owner, turn, position)
);

CREATE INDEX pending_calls_to_settle ON pending_calls (expires_at) WHERE settled_at IS NULL AND item_id IS NOT NULL;
CREATE INDEX pending_calls_polled ON pending_calls (poll_at) WHERE poll_at IS NOT NULL;

-- Calls that wait for a person's approval. Of what would be called only hashes are kept. The response need not have a row.
CREATE TABLE approvals (
    owner       bigint NOT NULL,              -- owners.key
    id          bytea  NOT NULL,
    response    uuid   NOT NULL,              -- the key that the response has if it has a row
    response_id bytea,                        -- its id, if the key does not tell it
    arguments   bytea  NOT NULL,              -- SHA-256
    definition  bytea  NOT NULL,              -- SHA-256
    expires_at  bigint NOT NULL,              -- Unix seconds
    used_at     bigint,                       -- Unix seconds; null: not yet
    used_by     bytea,                        -- the id of the response that makes the call
    PRIMARY KEY (owner, id)
);

CREATE INDEX approvals_by_response ON approvals (owner, response);
CREATE INDEX approvals_by_expiry ON approvals (expires_at);

-- Items that requests read and append to. A response that was made in a conversation has its id as `previous_id`.
CREATE TABLE conversations (
    key           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner         bigint NOT NULL,            -- owners.key
    id            bytea  NOT NULL,
    created_at    bigint NOT NULL,            -- Unix seconds
    used_at       bigint NOT NULL,            -- the last append or update; 0: is being deleted
    next_position bigint NOT NULL,            -- of the next item; never decreases
    visible_from  bigint NOT NULL,            -- the newest summary of all before it hides what has a lower position
    metadata      bytea  NOT NULL             -- a JSON object
) WITH (fillfactor = 80);

CREATE UNIQUE INDEX conversations_by_id ON conversations (id);
CREATE INDEX conversations_by_use ON conversations (used_at, key);
CREATE INDEX conversations_by_owner ON conversations (owner, key);

CREATE TABLE conversation_items (
    conversation bigint   NOT NULL,           -- conversations.key
    position     bigint   NOT NULL,
    item_key     uuid     NOT NULL,           -- the first half of the SHA-256 of its id: ids may be longer than keys of an index
    item_id      bytea    NOT NULL,
    direction    smallint NOT NULL,           -- 0: input, 1: output
    context      smallint,                    -- 1: a user's message, 2: instructions, 3: a summary of all before it
    tokens       bigint,                      -- estimated, of a user's message
    state        bytea,                       -- sealed provider state
    model_view   bytea,                       -- what the model sees; null: `wire`; '': nothing
    wire         bytea    NOT NULL,           -- the item, as clients see it
    PRIMARY KEY (conversation, position)
);

CREATE UNIQUE INDEX conversation_items_by_id ON conversation_items (conversation, item_key);
-- What a summary leaves of the items before it, and the summaries.
CREATE INDEX conversation_items_by_context ON conversation_items (conversation, context, position)
    WHERE context IS NOT NULL;

-- What a response that was made in a conversation has read of it.
CREATE TABLE response_conversations (
    response uuid   NOT NULL,                 -- responses.key
    owner    bigint NOT NULL,                 -- owners.key
    first    bigint NOT NULL,                 -- the position from which items were visible
    until    bigint NOT NULL,                 -- the position behind the last item
    PRIMARY KEY (response, owner)
);

-- Conversations in which runs go on. A lock is void when its time is over.
CREATE TABLE conversation_locks (
    owner        bigint NOT NULL,             -- owners.key
    conversation bytea  NOT NULL,             -- conversations.id; there need not be one
    instance     text   NOT NULL,             -- the process that has the lock
    holder       uuid   NOT NULL,             -- this one lock
    until        bigint NOT NULL,             -- by the clock of the database
    PRIMARY KEY (owner, conversation)
) WITH (fillfactor = 70);

-- Which response the key of a request has led to. Goes with the response.
CREATE TABLE idempotency_keys (
    owner       bigint NOT NULL,              -- owners.key
    key         bytea  NOT NULL,              -- as the client sent it
    fingerprint bytea  NOT NULL,              -- SHA-256 of the request
    response    uuid   NOT NULL,              -- responses.key
    expires_at  bigint NOT NULL,              -- a run that goes on keeps its key
    PRIMARY KEY (owner, key)
);

CREATE INDEX idempotency_keys_by_response ON idempotency_keys (response, owner);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- Keys whose response its owner has deleted: the same request is not made again. Nothing else of the response is left.
CREATE TABLE deleted_keys (
    owner       bigint NOT NULL,              -- owners.key
    key         bytea  NOT NULL,              -- as in idempotency_keys
    fingerprint bytea  NOT NULL,
    expires_at  bigint NOT NULL,
    PRIMARY KEY (owner, key)
);

CREATE INDEX deleted_keys_by_expiry ON deleted_keys (expires_at);

-- The responses that have, or had, a log of events. Goes with the response.
CREATE TABLE event_logs (
    response      uuid   NOT NULL,            -- responses.key
    owner         bigint NOT NULL,            -- owners.key
    expires_at    bigint,                     -- null while the run goes on; 0: it was given up
    replaced_from bigint,                     -- events from this number on are others than those that were logged first
    PRIMARY KEY (response, owner)
);

-- The events of a stream as they were sent, several to a row, without gaps. Goes with the response, or with the key.
CREATE TABLE event_log (
    response uuid    NOT NULL,                -- responses.key
    owner    bigint  NOT NULL,                -- owners.key
    first    bigint  NOT NULL,                -- sequence number of the first event
    last     bigint  NOT NULL,                -- sequence number of the last event
    is_end   boolean NOT NULL,                -- whether that is the terminal event
    bytes    bytea   NOT NULL,                -- encoded for the wire
    PRIMARY KEY (response, owner, first)
);

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

-- Which process goes over the rows of a tenant to add up their sizes: two would delete twice as much as is too much.
CREATE TABLE tenant_walks (
    tenant bytea  NOT NULL PRIMARY KEY,
    holder uuid   NOT NULL,                   -- the process
    until  bigint NOT NULL                    -- by the clock of the database
);

-- One row, rewritten to see whether the database accepts writes.
CREATE TABLE probe (
    id      integer PRIMARY KEY,
    written bigint NOT NULL
);
